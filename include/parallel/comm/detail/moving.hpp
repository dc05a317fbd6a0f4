// moving: copies and sums of an exchange, by its stream's data_mover or by the CPU itself.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/device/data_mover.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::detail {

/// The mover of a stream, or the CPU.
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
  /// With a mover: see data_mover::staging.
  [[nodiscard]] std::byte* staging(std::size_t bytes) const { return by_->staging(bytes); }
  void finish() const {
    if (by_ != nullptr) by_->finish();
  }

 private:
  data_mover* by_;
};

}  // namespace parallel::detail
