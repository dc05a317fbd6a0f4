// data_mover: access to memory that the CPU cannot reach, for tasks of a host stream.
//
// Ranks that are threads read and write each other's memory. The CPU cannot do that with memory of
// a GPU, so the stream of the exchange has a data mover for it. Its operations are asynchronous
// until `finish`.
#pragma once

#include <cstddef>
#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel {

/// Used by one thread at a time. Its arguments may point to memory of its device or of the host.
class data_mover {
 public:
  virtual ~data_mover() = default;

  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;

  /// Combines `count` elements of all sources, in order, and writes the result, of result_type
  /// (core/reduction.hpp), to every out. The bits are those of comm/detail/combine.hpp. An out may
  /// be the same memory as a source.
  virtual void combine(dtype type, reduction combine_by, std::span<void* const> outs,
                       std::span<void const* const> sources, std::size_t count) = 0;

  /// At least `bytes` of host memory to and from which copies are fast. Later calls return the same
  /// memory and must not ask for more. Throws `error` if there is not enough memory.
  [[nodiscard]] virtual std::byte* staging(std::size_t bytes) = 0;

  /// Blocks until all earlier operations are complete.
  virtual void finish() = 0;
};

}  // namespace parallel
