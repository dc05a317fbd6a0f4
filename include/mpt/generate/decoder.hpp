// decoder: reads texts with a model, through KV caches, and says what may come next.
//
// It knows how texts are read, not how a pass of the model runs: with weights in place
// (model_decoder.hpp), or between the steps of a training run of any layout
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
#include <parallel/train/stage.hpp>

namespace mpt {

/// How a decoder's passes run.
struct decoder_passes {
  /// Enqueues a pass and waits for it.
  std::function<void(microbatch const&)> run;
  /// Sums logits over the ranks that share the model; each gives zeros for what others make. Empty:
  /// this rank makes all.
  std::function<void(std::span<float>)> join = {};
};

/// What texts are read into, all of the given arena: keys and values, 2 · tokens · key heads here ·
/// head_dim elements a text and block here that makes keys; ids, and logits of a pass.
template <class T, class Comm = any_communicator>
class decoder_memory {
 public:
  /// `stages`: of the model, those that are here. `memory` must not be released below what it
  /// takes.
  decoder_memory(model<T, Comm> const& net, arena& memory, decoder_room room,
                 std::vector<train::stage_range> const& stages)
      : room_(limited(room)), lengths_(room_.texts) {
    auto const& config = net.config();
    caches_.resize(static_cast<std::size_t>(config.n_layers));
    for (index block = 0; block < config.n_layers; ++block) {
      auto const here = [&](auto const& s) { return s.begin <= block && block < s.end; };
      if (key_source(config, block) != block || !std::ranges::any_of(stages, here)) continue;
      for (std::size_t text = 0; text < room_.texts; ++text)
        caches_[static_cast<std::size_t>(block)].push_back(
            memory.allocate<T, 2>({room_.tokens, net.key_width()}));
    }
    auto const texts = static_cast<index>(room_.texts);
    ids_ = memory.allocate<std::int32_t, 1>({std::max(room_.rows, texts)});
    if (std::ranges::any_of(stages, &train::stage_range::exit))
      logits_ = memory.allocate<accumulate_t<T>, 2>(
          {std::max(room_.logit_rows, texts), net.vocabulary_here().count});
  }

  [[nodiscard]] decoder_room const& room() const { return room_; }
  /// Tokens of each text.
  [[nodiscard]] std::vector<index>& lengths() { return lengths_; }
  [[nodiscard]] std::span<std::int32_t> ids() const { return ids_.span(); }

  /// What a pass goes on from, that makes the last `wanted` logits of each of `texts`.
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
  [[nodiscard]] microbatch batch_of(continuation<T> const& of, index texts, index rows) const {
    return {.ids = {ids_.data(), {texts * rows}},
            .labels = {},
            .sequences = texts,
            .length = rows,
            .continues = &of};
  }

  /// Calls f(microbatch) for passes that need the most memory; their views are null.
  template <class F>
  void for_each_largest(F&& f) const {
    auto const shape = [&](std::size_t texts, index rows, index wanted) {
      std::vector<std::size_t> which(texts);
      auto const of = continue_texts(which, wanted);
      f(batch_of(of, static_cast<index>(texts), rows));
    };
    shape(1, room_.rows, std::min(room_.rows, room_.logit_rows));
    shape(room_.texts, 1, 1);
  }

 private:
  [[nodiscard]] static decoder_room limited(decoder_room room) {
    room.rows = std::min(room.rows, room.tokens);
    room.logit_rows = std::min(room.logit_rows, room.rows);
    return room;
  }

  decoder_room room_;
  std::vector<index> lengths_;                       // by text
  std::vector<std::vector<matrix_view<T>>> caches_;  // by block and text; empty: not here
  vector_view<std::int32_t> ids_;
  matrix_view<accumulate_t<T>> logits_;
};

template <class T, class Device, class Comm = any_communicator>
class decoder : public text_model {
 public:
  /// All arguments must outlive it; see decoder_memory.
  decoder(model<T, Comm> const& net, Device& device, arena& memory, decoder_room room,
          std::vector<train::stage_range> const& stages, decoder_passes passes)
      : net_(net),
        device_(device),
        texts_(net, memory, room, stages),
        makes_logits_(std::ranges::any_of(stages, &train::stage_range::exit)),
        passes_(std::move(passes)) {}

  [[nodiscard]] decoder_room const& room() const override { return texts_.room(); }
  [[nodiscard]] model_config const& config() const override { return net_.config(); }
  void keep(std::size_t text, index length) override {
    auto& own = texts_.lengths().at(text);
    own = std::min(own, length);
  }

  [[nodiscard]] std::vector<float> read(std::size_t text, std::span<std::int32_t const> ids,
                                        index wanted = 1) override {
    std::vector<float> out;
    auto const all = static_cast<index>(ids.size());
    for (index at = 0; at < all;) {
      index rows = std::min(room().rows, all - at);
      index scored = std::clamp<index>(at + rows - (all - wanted), 0, rows);
      rows -= std::max<index>(0, scored - room().logit_rows);
      scored = std::min(scored, room().logit_rows);
      auto const piece = ids.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows));
      auto const some = pass({&text, 1}, piece, scored);
      out.insert(out.end(), some.begin(), some.end());
      at += rows;
    }
    return out;
  }

  [[nodiscard]] std::vector<float> read_next(std::span<std::size_t const> texts,
                                             std::span<std::int32_t const> ids) override {
    return pass(texts, ids, 1);
  }

 private:
  /// Reads as many ids of each of `texts`; the logits of the last `wanted` of each.
  [[nodiscard]] std::vector<float> pass(std::span<std::size_t const> texts,
                                        std::span<std::int32_t const> ids, index wanted) {
    auto const rows = static_cast<index>(ids.size() / texts.size());
    auto& lengths = texts_.lengths();
    for (auto const text : texts)
      require(lengths.at(text) + rows <= room().tokens, "the decoder holds texts of ",
              room().tokens, " tokens, but ", lengths.at(text) + rows, " are needed");
    auto const of = texts_.continue_texts(texts, wanted);
    device_.upload(texts_.ids().first(ids.size()), ids);
    passes_.run(texts_.batch_of(of, static_cast<index>(texts.size()), rows));
    for (auto const text : texts) lengths[text] += rows;
    if (wanted == 0) return {};
    auto const whole = static_cast<std::size_t>(config().vocab_size);
    std::vector<float> out(texts.size() * static_cast<std::size_t>(wanted) * whole);
    if (makes_logits_) {
      auto const rows_here = net_.vocabulary_here();
      auto const first = static_cast<std::ptrdiff_t>(rows_here.begin);
      auto const here = static_cast<std::size_t>(rows_here.count);
      parallel::read_on_host(device_, of.logits.span(), [&](auto made) {
        auto to = out.begin() + first;
        for (std::size_t at = 0; at < made.size(); at += here) {
          std::ranges::transform(made.subspan(at, here), to,
                                 [](auto logit) { return static_cast<float>(logit); });
          if (at + here < made.size()) to += static_cast<std::ptrdiff_t>(whole);
        }
      });
    }
    if (passes_.join) passes_.join(out);
    return out;
  }

  model<T, Comm> const& net_;
  Device& device_;
  decoder_memory<T, Comm> texts_;
  bool makes_logits_;
  decoder_passes passes_;
};

/// Bytes that a decoder takes of its arena, and its passes, which take `pass_bytes(microbatch)`,
/// behind it.
template <class T, class Comm, class PassBytes>
[[nodiscard]] std::size_t decoder_bytes(model<T, Comm> const& net, decoder_room room,
                                        std::vector<train::stage_range> const& stages,
                                        PassBytes const& pass_bytes) {
  arena measure;
  decoder_memory<T, Comm> const of(net, measure, room, stages);
  std::size_t most = 0;
  of.for_each_largest([&](microbatch const& batch) { most = std::max(most, pass_bytes(batch)); });
  return measure.peak() + most;
}

}  // namespace mpt
