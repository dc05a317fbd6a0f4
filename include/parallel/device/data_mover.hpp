// data_mover: how tasks of a host stream reach memory that the CPU cannot.
//
// Ranks that are threads read and write each other's memory; when it is a GPU's, the CPU cannot,
// and the stream of the exchange brings a mover that can. What it is asked for may go on until
// `finish`.
#pragma once

#include <cstddef>
#include <span>

#include <parallel/core/dtype.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel {

/// Used by one thread at a time. Memory may be the mover's own kind or the host's.
class data_mover {
 public:
  virtual ~data_mover() = default;

  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;

  /// Combines `count` elements of every source, in order, and writes the result, of result_type
  /// (comm/operation.hpp), to every out: the bits are those of comm/detail/combine.hpp. Outs may be
  /// among the sources, at the same place.
  virtual void combine(dtype type, reduction how, std::span<void* const> outs,
                       std::span<void const* const> sources, std::size_t count) = 0;

  /// At least `bytes` of the host's memory, through which copies are fast. It is kept: the next
  /// call gives the same, and must not ask for more. Throws `error` when there is none.
  [[nodiscard]] virtual std::byte* staging(std::size_t bytes) = 0;

  /// Blocks until everything asked for is done.
  virtual void finish() = 0;
};

}  // namespace parallel
