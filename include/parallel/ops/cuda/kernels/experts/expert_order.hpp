// The order of rows by expert as kernels, without atomics and without counts on the host.
//
// Choices are divided into chunks of some hundred, none of which crosses a sequence.
// 1. count_choices   a block for each chunk counts the choices of each expert;
// 2. add_chunks      one block adds the counts of the chunks in their order, by expert, and finds
//                    where experts begin and end;
// 3. place_choices   a block for each chunk gives its choices their places.
// choice_counts adds the same counts of chunks by set. All are sums of integers in a fixed order.
// Cost: a thread for each expert reads all choices of a chunk, twice.
#pragma once

#include <cstdint>

#include <parallel/ops/cuda/row_groups.hpp>
#include <parallel/ops/experts/choice_counts.hpp>
#include <parallel/ops/experts/expert_order.hpp>

namespace parallel::cuda::kernels {

/// The division of rows of choices into chunks of consecutive rows of one sequence.
struct choice_chunks {
  index rows;     ///< of all sequences
  index choices;  ///< of a row
  index sequence;

  /// One sequence has all rows if there is no capacity by sequence.
  [[nodiscard]] static choice_chunks for_order(ops::expert_order_arguments const& a) {
    index const rows = a.experts.extent(0);
    return {rows, a.experts.extent(1), a.options.capacity > 0 ? a.options.sequence : rows};
  }
  /// The rows of each set are a sequence.
  template <class A>
  [[nodiscard]] static choice_chunks for_counts(ops::choice_counts_arguments<A> const& a) {
    index const rows = a.experts.extent(0);
    return {rows, a.experts.extent(1), rows / a.counts.extent(0)};
  }

  [[nodiscard]] PARALLELLM_HOST_DEVICE index chunk_rows() const {
    constexpr index chunk_choices = 256;
    return choices == 0 || choices > chunk_choices ? 1 : chunk_choices / choices;
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE index chunks_of_sequence() const {
    return (sequence + chunk_rows() - 1) / chunk_rows();
  }
  [[nodiscard]] PARALLELLM_HOST_DEVICE index count() const {
    return rows == 0 ? 0 : (rows + sequence - 1) / sequence * chunks_of_sequence();
  }
  /// The first choice of a chunk; that of `chunk` + 1 is its end. The chunks of an incomplete last
  /// sequence may be empty.
  [[nodiscard]] PARALLELLM_HOST_DEVICE index begin(index chunk) const {
    index const first = chunk / chunks_of_sequence() * sequence;
    index const row = first + chunk % chunks_of_sequence() * chunk_rows();
    return (row < rows ? row : rows) * choices;
  }
};

/// counts[k,e] = the number of choices of expert e in chunk k.
struct count_choices {
  std::int32_t* counts;
  std::int32_t const* experts;
  choice_chunks chunks;
  index expert_count;  // experts

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for (index k = b.block(); k < chunks.count(); k += b.blocks())
      for_each_in_block(b, static_cast<std::size_t>(expert_count), [&](std::size_t e) {
        std::int32_t count = 0;
        for (index i = chunks.begin(k); i < chunks.begin(k + 1); ++i)
          count += experts[i] == static_cast<std::int32_t>(e) ? 1 : 0;
        counts[k * expert_count + static_cast<index>(e)] = count;
      });
  }
};

/// From the counts: earlier[k,e], the choices of e in the sequence of chunk k before it, which
/// replaces the counts; retained[k,e], those in earlier sequences that the capacity leaves;
/// begins[e], the first place of an expert, which may be beyond its block; ends and lost as
/// ops::expert_order has them. One block. Shared memory: `shared_bytes`.
struct add_chunks {
  std::int32_t* earlier;
  std::int32_t* retained;
  std::int32_t* begins;
  std::int32_t* ends;
  std::int32_t* lost;
  choice_chunks chunks;
  index expert_count;  // experts
  index blocks;        // of places
  index block_rows, capacity;

  [[nodiscard]] std::size_t shared_bytes() const {
    return (2 * std::size_t{warp_size} + static_cast<std::size_t>(expert_count)) *
           sizeof(std::int32_t);
  }

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    auto* const sums = b.template shared<std::int32_t>();
    std::int32_t* const totals = sums + 2 * warp_size;
    std::int32_t dropped = 0, full = 0;
    for_each_in_block(b, static_cast<std::size_t>(expert_count),
                      [&](std::size_t e) { totals[e] = add(static_cast<index>(e), dropped); });
    b.sync();
    for_each_in_block(b, static_cast<std::size_t>(blocks), [&](std::size_t block) {
      auto const begin = static_cast<std::int32_t>(static_cast<index>(block) * block_rows);
      auto const limit = static_cast<std::int32_t>(begin + block_rows);
      auto end = begin;
      index const share = expert_count / blocks;
      for (index e = static_cast<index>(block) * share; e < (static_cast<index>(block) + 1) * share;
           ++e) {
        begins[e] = end;
        end += totals[e];
        ends[e] = (end < limit ? end : limit) - begin;
      }
      full += end > limit ? end - limit : 0;
    });
    dropped = combine_block(b, dropped, sums, plus{});
    full = combine_block(b, full, sums + warp_size, plus{});
    if (b.thread() == 0) {
      lost[0] = dropped;
      lost[1] = full;
    }
  }

 private:
  /// The choices of expert e that have places; adds those that have none to `dropped`.
  [[nodiscard]] PARALLELLM_DEVICE std::int32_t add(index e, std::int32_t& dropped) const {
    constexpr unsigned ahead = 8;  // counts that are loaded at a time
    index const count = chunks.count(), of_sequence = chunks.chunks_of_sequence();
    std::int32_t total = 0, in_sequence = 0;
    auto const end_sequence = [&] {
      bool const exceeds = capacity > 0 && in_sequence > capacity;
      std::int32_t const left = exceeds ? static_cast<std::int32_t>(capacity) : in_sequence;
      dropped += in_sequence - left;
      total += left;
      in_sequence = 0;
    };
    for (index first = 0; first < count; first += ahead) {
      std::int32_t counts[ahead];
      unrolled<ahead>([&](unsigned i) {
        counts[i] = first + i < count ? earlier[(first + i) * expert_count + e] : 0;
      });
      unrolled<ahead>([&](unsigned i) {
        if (first + i >= count) return;
        if ((first + i) % of_sequence == 0) end_sequence();
        earlier[(first + i) * expert_count + e] = in_sequence;
        retained[(first + i) * expert_count + e] = total;
        in_sequence += counts[i];
      });
    }
    end_sequence();
    return total;
  }
};

/// places[i] of all choices i.
struct place_choices {
  std::int32_t* places;
  std::int32_t const* experts;
  std::int32_t const* earlier;
  std::int32_t const* retained;
  std::int32_t const* begins;
  choice_chunks chunks;
  index expert_count;  // experts
  index share;         // experts of a block of places
  index block_rows, capacity;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for (index k = b.block(); k < chunks.count(); k += b.blocks())
      for_each_in_block(b, static_cast<std::size_t>(expert_count),
                        [&](std::size_t e) { place(k, static_cast<index>(e)); });
  }

 private:
  PARALLELLM_DEVICE void place(index chunk, index e) const {
    std::int32_t in_sequence = earlier[chunk * expert_count + e];
    std::int32_t const first = begins[e] + retained[chunk * expert_count + e];
    index const limit = (e / share + 1) * block_rows;
    for (index i = chunks.begin(chunk); i < chunks.begin(chunk + 1); ++i) {
      if (experts[i] != static_cast<std::int32_t>(e)) continue;
      bool const is_dropped = capacity > 0 && in_sequence >= capacity;
      std::int32_t const found = first + in_sequence++;
      places[i] = is_dropped || found >= limit ? -1 : found;
    }
  }
};

/// counts[s,e] = the sum of the counts of expert e over the chunks of set s.
template <class A>
struct add_set_counts {
  A* counts;
  std::int32_t const* chunk_counts;
  index sets, chunks_of_set, expert_count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_in_grid(b, static_cast<std::size_t>(sets * expert_count), [this](std::size_t i) {
      index const set = static_cast<index>(i) / expert_count,
                  e = static_cast<index>(i) % expert_count;
      std::int32_t sum = 0;
      for (index k = set * chunks_of_set; k < (set + 1) * chunks_of_set; ++k)
        sum += chunk_counts[k * expert_count + e];
      counts[i] = static_cast<A>(sum);
    });
  }
};

}  // namespace parallel::cuda::kernels
