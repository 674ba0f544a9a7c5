// Any bytes as a Keras model, a .keras or .h5 file, and as HDF5 data: a message, or a program that prints, and types or
// says why not.
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/import/keras/hdf5.h"
#include "compiler/import/keras/import.h"
#include "tests/fuzz/check_imported.h"

namespace {

// Reads all that a file of HDF5 has, also what no model would ask for.
void ReadAll(rvm::hdf5::File& file, const std::string& path, int depth) {
  absl::StatusOr<const rvm::hdf5::Object*> found = file.Find(path);
  if (!found.ok() || depth == 0) return;
  const rvm::hdf5::Object& object = **found;
  for (const rvm::hdf5::Attribute& attribute : object.attributes) file.Texts(attribute).IgnoreError();
  if (object.is_dataset) file.Tensor(object).IgnoreError();
  for (size_t i = 0; i < object.links.size() && i < 16; ++i) {
    ReadAll(file, path + "/" + object.links[i].name, depth - 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rvm;  // NOLINT
  const keras::FileBytes file = {{data, size}, nullptr};
  if (absl::StatusOr<hdf5::File> opened = hdf5::File::Open(file); opened.ok()) ReadAll(*opened, "", 4);
  CheckImported(keras::Import(file, keras::ImportOptions()));
  return 0;
}
