// decoder: reads texts with a model, through KV caches, and returns the logits of the next tokens.
//
// A decoder knows how texts are read, not how a forward pass of the model runs. A pass runs with
// weights in place (model_decoder.hpp), or between the steps of a training run of any layout
// (train/run_decoder.hpp). Ranks that share the model along the tensor and pipeline axes read the
// same texts together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <mpt/generate/text_model.hpp>
#include <mpt/model/model.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/train/setup/stage.hpp>

namespace mpt {

/// How a decoder's forward passes run.
struct decoder_passes {
  /// Enqueues a pass and waits for it.
  std::function<void(microbatch const&)> run;
  /// Sums logits over the ranks that share the model; each rank passes zeros for the logits that
  /// other ranks compute. Empty: this rank computes all logits.
  std::function<void(std::span<float>)> sum_logits = {};
};

/// The memory of a decoder, allocated in a given arena: keys and values, which are 2 · tokens ·
/// local key heads · head_dim elements for each text and each local block that makes keys; the ids
/// and the logits of a pass.
template <class T, class Comm = any_communicator>
class decoder_memory {
 public:
  /// `stages`: the stages of the model that are on this rank. `memory` must not be released below
  /// what this object allocates in it.
  decoder_memory(model<T, Comm> const& net, arena& memory, decoder_room room,
                 std::vector<train::stage_range> const& stages)
      : room_(limited(room)), lengths_(room_.texts) {
    auto const& config = net.config();
    caches_.resize(static_cast<std::size_t>(config.n_layers));
    for (index block = 0; block < config.n_layers; ++block) {
      auto const holds_block = [&](auto const& stage) {
        return stage.begin <= block && block < stage.end;
      };
      if (key_source(config, block) != block || !std::ranges::any_of(stages, holds_block)) continue;
      for (std::size_t text = 0; text < room_.texts; ++text)
        caches_[static_cast<std::size_t>(block)].push_back(
            memory.allocate<T, 2>({room_.tokens, net.key_width()}));
    }
    auto const texts = static_cast<index>(room_.texts);
    ids_ = memory.allocate<std::int32_t, 1>({std::max(room_.rows, texts)});
    if (std::ranges::any_of(stages, &train::stage_range::exit))
      logits_ = memory.allocate<accumulate_t<T>, 2>(
          {std::max(room_.logit_rows, texts), net.local_vocabulary().count});
  }

  [[nodiscard]] decoder_room const& room() const { return room_; }
  /// The number of tokens of each text.
  [[nodiscard]] std::vector<index>& lengths() { return lengths_; }
  [[nodiscard]] std::span<std::int32_t> ids() const { return ids_.span(); }

  /// The state from which a pass continues `texts`; the pass computes logits of the last `wanted`
  /// rows of each.
  [[nodiscard]] continuation<T> continue_texts(std::span<std::size_t const> texts,
                                               index wanted) const {
    continuation<T> out;
    out.wanted = wanted;
    out.logits = {logits_.data(), {static_cast<index>(texts.size()) * wanted, logits_.extent(1)}};
    for (auto const text : texts) out.lengths.push_back(lengths_.at(text));
    for (auto const& block : caches_) {
      out.caches.emplace_back();
      if (block.empty()) continue;
      for (auto const text : texts) out.caches.back().push_back({block[text], lengths_[text]});
    }
    return out;
  }
  [[nodiscard]] microbatch make_batch(continuation<T> const& state, index texts, index rows) const {
    return {.ids = {ids_.data(), {texts * rows}},
            .labels = {},
            .sequences = texts,
            .length = rows,
            .continues = &state};
  }

  /// Calls f(microbatch) with the microbatches whose passes need the most memory; their views are
  /// null.
  template <class F>
  void for_each_largest(F&& f) const {
    auto const visit = [&](std::size_t texts, index rows, index wanted) {
      std::vector<std::size_t> numbers(texts);
      auto const state = continue_texts(numbers, wanted);
      f(make_batch(state, static_cast<index>(texts), rows));
    };
    visit(1, room_.rows, std::min(room_.rows, room_.logit_rows));
    visit(room_.texts, 1, 1);
  }

 private:
  [[nodiscard]] static decoder_room limited(decoder_room room) {
    room.rows = std::min(room.rows, room.tokens);
    room.logit_rows = std::min(room.logit_rows, room.rows);
    return room;
  }

  decoder_room room_;
  std::vector<index> lengths_;                       // by text
  std::vector<std::vector<matrix_view<T>>> caches_;  // by block and text; empty: block is elsewhere
  vector_view<std::int32_t> ids_;
  matrix_view<accumulate_t<T>> logits_;
};

template <class T, class Device, class Comm = any_communicator>
class decoder : public text_model {
 public:
  /// All arguments must outlive the decoder; decoder_memory describes them.
  decoder(model<T, Comm> const& net, Device& device, arena& memory, decoder_room room,
          std::vector<train::stage_range> const& stages, decoder_passes passes)
      : net_(net),
        device_(device),
        texts_(net, memory, room, stages),
        has_logits_(std::ranges::any_of(stages, &train::stage_range::exit)),
        passes_(std::move(passes)) {}

  [[nodiscard]] decoder_room const& room() const override { return texts_.room(); }
  [[nodiscard]] model_config const& config() const override { return net_.config(); }
  void truncate(std::size_t text, index length) override {
    auto& current = texts_.lengths().at(text);
    current = std::min(current, length);
  }

  [[nodiscard]] std::vector<float> read(std::size_t text, std::span<std::int32_t const> ids,
                                        index wanted = 1) override {
    std::vector<float> out;
    auto const count = static_cast<index>(ids.size());
    for (index begin = 0; begin < count;) {
      index rows = std::min(room().rows, count - begin);
      index scored = std::clamp<index>(begin + rows - (count - wanted), 0, rows);
      rows -= std::max<index>(0, scored - room().logit_rows);
      scored = std::min(scored, room().logit_rows);
      auto const piece =
          ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows));
      auto const logits = pass({&text, 1}, piece, scored);
      out.insert(out.end(), logits.begin(), logits.end());
      begin += rows;
    }
    return out;
  }

  [[nodiscard]] std::vector<float> read_next(std::span<std::size_t const> texts,
                                             std::span<std::int32_t const> ids) override {
    return pass(texts, ids, 1);
  }

 private:
  /// Reads equally many ids of each of `texts`; returns the logits of the last `wanted` rows of
  /// each.
  [[nodiscard]] std::vector<float> pass(std::span<std::size_t const> texts,
                                        std::span<std::int32_t const> ids, index wanted) {
    auto const rows = static_cast<index>(ids.size() / texts.size());
    auto& lengths = texts_.lengths();
    for (auto const text : texts)
      require(lengths.at(text) + rows <= room().tokens, "the decoder holds texts of ",
              room().tokens, " tokens, but ", lengths.at(text) + rows, " are needed");
    auto const state = texts_.continue_texts(texts, wanted);
    device_.upload(texts_.ids().first(ids.size()), ids);
    passes_.run(texts_.make_batch(state, static_cast<index>(texts.size()), rows));
    for (auto const text : texts) lengths[text] += rows;
    if (wanted == 0) return {};
    auto const vocabulary = static_cast<std::size_t>(config().vocab_size);
    std::vector<float> all_logits(texts.size() * static_cast<std::size_t>(wanted) * vocabulary);
    if (has_logits_) {
      auto const local = net_.local_vocabulary();
      auto const first = static_cast<std::ptrdiff_t>(local.begin);
      auto const width = static_cast<std::size_t>(local.count);
      parallel::read_on_host(device_, state.logits.span(), [&](auto logits) {
        auto target = all_logits.begin() + first;
        for (std::size_t offset = 0; offset < logits.size(); offset += width) {
          std::ranges::transform(logits.subspan(offset, width), target,
                                 [](auto logit) { return static_cast<float>(logit); });
          if (offset + width < logits.size()) target += static_cast<std::ptrdiff_t>(vocabulary);
        }
      });
    }
    if (passes_.sum_logits) passes_.sum_logits(all_logits);
    return all_logits;
  }

  model<T, Comm> const& net_;
  Device& device_;
  decoder_memory<T, Comm> texts_;
  bool has_logits_;
  decoder_passes passes_;
};

/// The bytes of its arena that a decoder needs: its own memory and, after it, that of the largest
/// pass, which takes `pass_bytes(microbatch)`.
template <class T, class Comm, class PassBytes>
[[nodiscard]] std::size_t decoder_bytes(model<T, Comm> const& net, decoder_room room,
                                        std::vector<train::stage_range> const& stages,
                                        PassBytes const& pass_bytes) {
  arena measure;
  decoder_memory<T, Comm> const texts(net, measure, room, stages);
  std::size_t largest_pass = 0;
  texts.for_each_largest(
      [&](microbatch const& batch) { largest_pass = std::max(largest_pass, pass_bytes(batch)); });
  return measure.peak() + largest_pass;
}

}  // namespace mpt
