#include "vm/device/binary_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "gtest/gtest.h"

namespace rvm::device {
namespace {

using Bytes = std::vector<uint8_t>;

BinaryCache::Key KeyOf(std::string_view name) {
  std::string_view parts[] = {"driver 1", name};
  return BinaryCache::KeyOf(parts);
}

class BinaryCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "binary_cache.XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    ::chmod(folder_.c_str(), 0700);
    std::filesystem::remove_all(folder_);
  }
  std::string Directory() const { return folder_ + "/a/b"; }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(Directory())) files.push_back(entry.path());
    return files;
  }

  std::string folder_;
};

TEST_F(BinaryCacheTest, KeepsWhatItIsGiven) {
  BinaryCache cache(Directory());
  EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt);
  cache.Keep(KeyOf("a"), Bytes{1, 2, 3});
  cache.Keep(KeyOf("b"), Bytes{4});
  cache.Keep(KeyOf("a"), Bytes{5, 6});
  EXPECT_EQ(BinaryCache(Directory()).Find(KeyOf("a")), (Bytes{5, 6}));
  EXPECT_EQ(cache.Find(KeyOf("b")), Bytes{4});
  EXPECT_EQ(Files().size(), 2);
}

TEST_F(BinaryCacheTest, KeysDependOnEachPart) {
  std::string_view one[] = {"ab", "c"}, other[] = {"a", "bc"}, less[] = {"abc"};
  EXPECT_NE(BinaryCache::KeyOf(one), BinaryCache::KeyOf(other));
  EXPECT_NE(BinaryCache::KeyOf(one), BinaryCache::KeyOf(less));
  EXPECT_EQ(BinaryCache::KeyOf(one), BinaryCache::KeyOf(one));
}

TEST_F(BinaryCacheTest, DamagedBinariesAreNotThere) {
  BinaryCache cache(Directory());
  cache.Keep(KeyOf("a"), Bytes(100, 7));
  const std::string path = Files().at(0);
  const std::string whole = *ReadFile(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(ReplaceFile(path, whole.substr(0, size)).ok());
    EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    ASSERT_TRUE(ReplaceFile(path, damaged).ok());
    EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt) << at;
  }
  ASSERT_TRUE(ReplaceFile(path, whole + "x").ok());
  EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt);
  ASSERT_TRUE(ReplaceFile(path, whole).ok());
  EXPECT_EQ(cache.Find(KeyOf("a")), Bytes(100, 7));
}

TEST_F(BinaryCacheTest, ABinaryBelongsToItsKey) {
  BinaryCache cache(Directory());
  cache.Keep(KeyOf("a"), Bytes(10, 1));
  std::string a = Files().at(0);
  cache.Keep(KeyOf("b"), Bytes(10, 2));
  std::string b = Files().at(0) == a ? Files().at(1) : Files().at(0);
  std::filesystem::copy_file(a, b, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(cache.Find(KeyOf("b")), std::nullopt);
}

TEST_F(BinaryCacheTest, WhatWasUsedLeastRecentlyGoes) {
  BinaryCache cache(Directory(), 4000);
  for (const char* name : {"a", "b", "c"}) cache.Keep(KeyOf(name), Bytes(900, 1));
  // In the order of their names, long ago.
  auto use_at = [&](const char* name, int64_t time) {
    for (const std::string& path : Files()) {
      BinaryCache::Key key = KeyOf(name);
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", key[0]);
      if (!std::filesystem::path(path).filename().string().starts_with(digits)) continue;
      timespec times[] = {{time, 0}, {time, 0}};
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    }
  };
  use_at("a", 1000);
  use_at("b", 2000);
  use_at("c", 3000);
  EXPECT_TRUE(cache.Find(KeyOf("a")));  // so that `b` is the oldest
  cache.Keep(KeyOf("d"), Bytes(900, 1));
  EXPECT_EQ(Files().size(), 4);
  cache.Keep(KeyOf("e"), Bytes(900, 1));
  EXPECT_EQ(Files().size(), 4);
  EXPECT_FALSE(cache.Find(KeyOf("b")));
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_TRUE(cache.Find(KeyOf(name))) << name;
  cache.Keep(KeyOf("f"), Bytes(1001, 1));
  EXPECT_FALSE(cache.Find(KeyOf("f"))) << "more than a quarter of all";
}

TEST_F(BinaryCacheTest, WithoutADirectoryNothingIsKept) {
  for (const std::string& directory : {std::string(), std::string("/dev/null/x"), std::string("/proc/none")}) {
    BinaryCache cache(directory);
    cache.Keep(KeyOf("a"), Bytes{1});
    EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt) << directory;
  }
}

TEST_F(BinaryCacheTest, ADirectoryThatOthersMayWriteToIsNotUsed) {
  BinaryCache cache(Directory());
  cache.Keep(KeyOf("a"), Bytes{1});
  ASSERT_EQ(::chmod(Directory().c_str(), 0770), 0);
  EXPECT_EQ(cache.Find(KeyOf("a")), std::nullopt);
  cache.Keep(KeyOf("b"), Bytes{1});
  EXPECT_EQ(Files().size(), 1);
  ASSERT_EQ(::chmod(Directory().c_str(), 0500), 0);
  EXPECT_EQ(cache.Find(KeyOf("a")), Bytes{1});
}

TEST_F(BinaryCacheTest, ManyWritersAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      BinaryCache cache(Directory());
      for (int i = 0; i < 50; ++i) {
        std::string name(1, static_cast<char>('a' + i % 5));
        Bytes binary(1000, static_cast<uint8_t>(name[0]));
        cache.Keep(KeyOf(name), binary);
        EXPECT_EQ(cache.Find(KeyOf(name)), binary);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Files().size(), 5);
}

TEST_F(BinaryCacheTest, WhereItIs) {
  ::unsetenv("RELAYVM_DEVICE_CACHE");
  ::setenv("HOME", "/home/me", 1);
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(BinaryCache::DirectoryOf("opencl"), "/cache/relayvm/opencl");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(BinaryCache::DirectoryOf("opencl"), "/home/me/.cache/relayvm/opencl");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("RELAYVM_DEVICE_CACHE", "off", 1);
  EXPECT_EQ(BinaryCache::DirectoryOf("opencl"), "");
  ::unsetenv("RELAYVM_DEVICE_CACHE");
  ::unsetenv("HOME");
  EXPECT_EQ(BinaryCache::DirectoryOf("opencl"), "");
}

}  // namespace
}  // namespace rvm::device
