// exchange_mover: moves and combines the data of an exchange, by a data_mover or by the CPU.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/device/data_mover.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::detail {

/// The data_mover of a stream, or the CPU if the stream has none.
class exchange_mover {
 public:
  explicit exchange_mover(host::stream const& s) : mover_(s.mover()) {}

  [[nodiscard]] bool is_cpu() const { return mover_ == nullptr; }

  void copy(void* to, void const* from, std::size_t bytes) const {
    if (to == from || bytes == 0) return;
    if (mover_ != nullptr)
      mover_->copy(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }
  void combine(dtype type, reduction op, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) const {
    if (mover_ != nullptr)
      mover_->combine(type, op, outs, sources, count);
    else
      detail::combine(type, op, outs, sources, count);
  }
  /// Needs a data_mover: see data_mover::staging.
  [[nodiscard]] std::byte* staging(std::size_t bytes) const { return mover_->staging(bytes); }
  void finish() const {
    if (mover_ != nullptr) mover_->finish();
  }

 private:
  data_mover* mover_;
};

}  // namespace parallel::detail
