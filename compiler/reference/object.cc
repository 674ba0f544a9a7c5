#include "compiler/reference/object.h"

namespace rvm::reference {

Handle::Handle(const Handle& other) : object_(other.object_) {
  if (object_ != nullptr) ++object_->count;
}

// Fields of dying objects go to a list instead of the host stack.
void Handle::Release(Object* object) {
  if (--object->count > 0) return;
  if (object->fields.empty()) {
    delete object;
    return;
  }
  std::vector<Object*> dying = {object};
  while (!dying.empty()) {
    Object* next = dying.back();
    dying.pop_back();
    for (Handle& field : next->fields) {
      Object* child = std::exchange(field.object_, nullptr);
      if (child != nullptr && --child->count == 0) dying.push_back(child);
    }
    delete next;
  }
}

Object::~Object() {
  if (next == nullptr) return;
  previous->next = next;
  next->previous = previous;
}

RefCells::~RefCells() {
  while (head_.next != &head_) {
    Object* cell = head_.next;
    cell->previous->next = cell->next;
    cell->next->previous = cell->previous;
    cell->next = cell->previous = nullptr;
    // The cell may die with its contents, so these leave it first.
    std::vector<Handle> contents = std::move(cell->fields);
    cell->fields.clear();
  }
  head_.next = head_.previous = nullptr;
}

Handle RefCells::New(Handle contents) {
  auto* cell = new Object(ObjectKind::kRef);
  cell->fields.push_back(std::move(contents));
  cell->next = head_.next;
  cell->previous = &head_;
  head_.next->previous = cell;
  head_.next = cell;
  return Handle(cell);
}

}  // namespace rvm::reference
