// gradient_sums: sums gradients over ranks, sent either in their own type or in bf16, which is half
// the bytes.
//
// In bf16, values are rounded once for each exchange before they are sent; sums are kept in float.
// So a reduce_scatter gives the owner Σ_r bf16(x_r), in rank order and not rounded, and an
// all_reduce gives every rank bf16(Σ_r bf16(x_r)): the same bits on all ranks, including the one
// that summed.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel::zero {

/// The way in which gradients are summed over ranks. `G`: the type of their elements.
template <class G>
class gradient_sums {
 public:
  /// Gradients are sent in their own type.
  gradient_sums() = default;
  /// Gradients are sent in bf16, rounded in `staging`: at least as many elements as are summed in
  /// one call, in memory that only the stream of the exchanges uses; an empty `staging` means no
  /// rounding.
  explicit gradient_sums(std::span<bf16> staging) requires std::same_as<G, float>
      : staging_(staging) {}

  [[nodiscard]] bool rounds() const { return !staging_.empty(); }

  /// A rank's part of a span, and the whole span.
  struct shard {
    std::span<G> owned;
    std::span<G const> whole;
  };

  /// Enqueues one call after which every `owned` is the sum over `ranks` of this rank's part of
  /// `whole`, by `combine` unless gradients are rounded. It sends (n-1)/n of all bytes.
  template <class Comm, class Stream>
  typename Comm::request_type reduce_scatter(Comm& ranks, Stream& s, std::span<shard const> shards,
                                             reduction combine, call_site caller) const {
    call_group calls(ranks);
    [[maybe_unused]] std::size_t offset = 0;
    for (auto const& [owned, whole] : shards) {
      if constexpr (std::same_as<G, float>)
        if (rounds()) {
          auto const rounded = staging_.subspan(offset, whole.size());
          ops::cast(s, rounded, whole);
          calls.reduce_scatter(s, owned, std::span<bf16 const>(rounded), caller).detach();
          offset += whole.size();
          continue;
        }
      calls.reduce_scatter(s, owned, whole, combine, caller).detach();
    }
    return calls.end(s, caller);
  }

  /// Enqueues one call, or two where gradients are rounded, after which every `owned` in `shards`,
  /// whose sizes divide by the number of ranks, is the sum over all ranks. It sends 2(n-1)/n of
  /// their bytes. Where gradients are rounded, the request ends before its last operation: wait for
  /// the stream.
  template <class Comm, class Stream>
  typename Comm::request_type all_reduce(Comm& ranks, Stream& s, std::span<shard const> shards,
                                         reduction combine, call_site caller) const {
    call_group calls(ranks);
    if (!rounds()) {
      for (auto const& [owned, whole] : shards)
        calls.all_reduce(s, owned, combine, caller).detach();
      return calls.end(s, caller);
    }
    if constexpr (std::same_as<G, float>) {
      auto const part_of = [&](auto const& span_of_all) {
        std::size_t const part = span_of_all.size() / static_cast<std::size_t>(ranks.size());
        return span_of_all.subspan(part * static_cast<std::size_t>(ranks.rank()), part);
      };
      std::vector<shard> parts;
      for (auto const& [owned, whole] : shards) parts.push_back({part_of(owned), owned});
      reduce_scatter(ranks, s, parts, combine, caller).detach();
      std::size_t offset = 0;
      for (auto const& [owned, whole] : parts) {
        auto const rounded = staging_.subspan(offset, whole.size());
        ops::cast(s, part_of(rounded), std::span<float const>(owned));
        calls.all_gather(s, rounded, std::span<bf16 const>(part_of(rounded)), caller).detach();
        offset += whole.size();
      }
      auto gathered = calls.end(s, caller);
      gathered.detach();
      offset = 0;
      for (auto const& [owned, whole] : shards) {
        ops::cast(s, owned, std::span<bf16 const>(staging_.subspan(offset, owned.size())));
        offset += owned.size();
      }
      return gathered;
    }
    return {};
  }

 private:
  std::span<bf16> staging_;
};

}  // namespace parallel::zero
