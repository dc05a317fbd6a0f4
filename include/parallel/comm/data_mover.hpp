// data_mover: how the exchanges of a stream reach the memory they are about.
//
// Ranks that are threads read and write each other's memory; when it is a GPU's, the CPU cannot,
// and the stream of the exchange brings a mover that can. What it is asked for may go on until
// `finish`.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/reduction.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel {

/// Used by one thread at a time. Memory may be the mover's own kind or the host's.
class data_mover {
 public:
  virtual ~data_mover() = default;

  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;

  /// Combines `count` elements of every source, in order, and writes the result to every out: the
  /// bits are those of the other backends. Outs may be among the sources, at the same place.
  virtual void combine(dtype type, reduction how, std::span<void* const> outs,
                       std::span<void const* const> sources, std::size_t count) = 0;

  /// Blocks until everything asked for is done.
  virtual void finish() = 0;
};

namespace detail {

/// The mover of a stream, or the CPU itself.
class moving {
 public:
  explicit moving(host::stream const& s) : by_(s.mover()) {}

  [[nodiscard]] bool by_the_cpu() const { return by_ == nullptr; }

  void copy(void* to, void const* from, std::size_t bytes) const {
    if (to == from || bytes == 0) return;
    if (by_ != nullptr)
      by_->copy(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }
  void combine(dtype type, reduction how, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) const {
    if (by_ != nullptr)
      by_->combine(type, how, outs, sources, count);
    else
      detail::combine(type, how, outs, sources, count);
  }
  void finish() const {
    if (by_ != nullptr) by_->finish();
  }

 private:
  data_mover* by_;
};

}  // namespace detail
}  // namespace parallel
