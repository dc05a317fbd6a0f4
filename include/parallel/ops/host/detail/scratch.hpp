// scratch: memory that one thread uses during one operation, aligned to cache lines.
//
// Uninitialised, freed at the end of the operation. glibc serves such requests from memory freed by
// the operation before, so the cost is that of touching them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include <parallel/core/tensor.hpp>

namespace parallel::host::detail {

template <class T>
class scratch {
 public:
  explicit scratch(index count)
      : data_(static_cast<T*>(
            ::operator new(static_cast<std::size_t>(count) * sizeof(T) + 64, alignment))) {}

  [[nodiscard]] T* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(T* data) const { ::operator delete(static_cast<void*>(data), alignment); }
  };
  std::unique_ptr<T, release> data_;
};

}  // namespace parallel::host::detail
