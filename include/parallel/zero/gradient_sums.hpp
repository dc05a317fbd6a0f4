// gradient_sums: gradients summed over ranks, as they are or travelling in bf16, half the bytes.
//
// What leaves a rank is then rounded to bf16, once for each exchange; sums are kept in float. So a
// reduce_scatter gives the owner Σ_r bf16(x_r), in rank order and not rounded, and an all_reduce
// gives everybody bf16(Σ_r bf16(x_r)): the same bits, which the one that summed them takes, too.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/core/call_site.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/ops/elementwise.hpp>

namespace parallel::zero {

/// How gradients are summed over ranks. `G`: the type in which they are.
template <class G>
class gradient_sums {
 public:
  /// Gradients travel as they are.
  gradient_sums() = default;
  /// Gradients travel in bf16, rounded in `staging`: at least as many elements as are summed at
  /// once, of memory that the stream of the exchanges alone uses, unless it is empty.
  explicit gradient_sums(std::span<bf16> staging) requires std::same_as<G, float>
      : staging_(staging) {}

  [[nodiscard]] bool rounds() const { return !staging_.empty(); }

  /// A rank's part of something, and all of it.
  struct shard {
    std::span<G> own;
    std::span<G const> whole;
  };

  /// Enqueues: every `own` becomes the sum over `ranks` of this rank's part of `whole`, by
  /// `combine` unless they are rounded. One call, which sends (n-1)/n of the bytes of all.
  template <class Comm, class Stream>
  typename Comm::request_type reduce_scatter(Comm& ranks, Stream& s, std::span<shard const> all,
                                             reduction combine, call_site where) const {
    call_group calls(ranks);
    [[maybe_unused]] std::size_t at = 0;
    for (auto const& [own, whole] : all) {
      if constexpr (std::same_as<G, float>)
        if (rounds()) {
          auto const rounded = staging_.subspan(at, whole.size());
          ops::cast(s, rounded, whole);
          calls.reduce_scatter(s, own, std::span<bf16 const>(rounded), where).leave_to_its_stream();
          at += whole.size();
          continue;
        }
      calls.reduce_scatter(s, own, whole, combine, where).leave_to_its_stream();
    }
    return calls.end(s, where);
  }

  /// Enqueues: every `own` of `all`, whose sizes divide by the ranks, becomes the sum of all
  /// ranks'. One call, two where they are rounded, which send 2(n-1)/n of their bytes. Then the
  /// request is over before the last of it has run: wait for the stream.
  template <class Comm, class Stream>
  typename Comm::request_type all_reduce(Comm& ranks, Stream& s, std::span<shard const> all,
                                         reduction combine, call_site where) const {
    call_group calls(ranks);
    if (!rounds()) {
      for (auto const& [own, whole] : all)
        calls.all_reduce(s, own, combine, where).leave_to_its_stream();
      return calls.end(s, where);
    }
    if constexpr (std::same_as<G, float>) {
      auto const part_of = [&](auto const& of) {
        std::size_t const part = of.size() / static_cast<std::size_t>(ranks.size());
        return of.subspan(part * static_cast<std::size_t>(ranks.rank()), part);
      };
      std::vector<shard> parts;
      for (auto const& [own, whole] : all) parts.push_back({part_of(own), own});
      reduce_scatter(ranks, s, parts, combine, where).leave_to_its_stream();
      std::size_t at = 0;
      for (auto const& [own, whole] : parts) {
        auto const rounded = staging_.subspan(at, whole.size());
        ops::cast(s, part_of(rounded), std::span<float const>(own));
        calls.all_gather(s, rounded, std::span<bf16 const>(part_of(rounded)), where)
            .leave_to_its_stream();
        at += whole.size();
      }
      auto gathered = calls.end(s, where);
      gathered.leave_to_its_stream();
      at = 0;
      for (auto const& [own, whole] : all) {
        ops::cast(s, own, std::span<bf16 const>(staging_.subspan(at, own.size())));
        at += own.size();
      }
      return gathered;
    }
    return {};
  }

 private:
  std::span<bf16> staging_;
};

}  // namespace parallel::zero
