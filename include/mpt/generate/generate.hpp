// Generation with a KV cache: one forward pass over the prompt, then one row a token.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include <mpt/generate/history.hpp>
#include <mpt/generate/sampler.hpp>
#include <mpt/model/model.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/meta.hpp>

namespace mpt {

struct generation_options {
  std::int64_t max_new_tokens = 100;
  std::int32_t end_of_text = -1;  // stops here; -1: never
  sampling_options sampling = {};
  history_options history = {};
  /// Called with each new id; true ends the text behind it.
  std::function<bool(std::int32_t)> last = {};
};

/// Rows of packed K and V of every block for one sequence: 2 · capacity · key heads · head_dim
/// elements a block. Blocks that attend to another's keys use its rows.
template <class T>
class generation_cache {
 public:
  template <class Device>
  generation_cache(model_config const& config, index capacity, Device& device) {
    index const width = 2 * kv_heads(config) * head_dim(config);
    for (index i = 0; i < config.n_layers; ++i) {
      source_.push_back(static_cast<std::size_t>(key_source(config, i)));
      blocks_.emplace_back();
      if (source_.back() != blocks_.size() - 1) continue;
      storage_.push_back(device.template allocate<T>(static_cast<std::size_t>(capacity * width)));
      blocks_.back().rows = {storage_.back().data(), {capacity, width}};
    }
  }
  [[nodiscard]] kv_cache<T>& at(std::size_t block) { return blocks_[source_[block]]; }
  [[nodiscard]] index length() const { return blocks_.empty() ? 0 : blocks_[0].length; }
  [[nodiscard]] index capacity() const { return blocks_.empty() ? 0 : blocks_[0].rows.extent(0); }
  /// Forgets all but the first `length` tokens.
  void keep(index length) {
    for (auto& block : blocks_) block.length = std::min(block.length, length);
  }

 private:
  std::vector<buffer<T>> storage_;
  std::vector<kv_cache<T>> blocks_;
  std::vector<std::size_t> source_;  // the block whose rows each uses
};

namespace detail {

/// One pass of `batch` through the blocks: logits [wanted, V] of its last rows; nothing for 0.
template <class T, class Stream, class Cache>
[[nodiscard]] matrix_view<accumulate_t<T>> last_logits(model<T> const& net, context<Stream>& c,
                                                       microbatch const& batch, Cache&& cache_of,
                                                       index first_position, index wanted) {
  auto x = net.embed(c, batch, first_position);
  for (std::size_t i = 0; i < net.num_blocks(); ++i) {
    arena::scope const temporaries(c.memory);
    typename model<T>::block::saved kept;
    attention_of<T>(kept).cache = cache_of(i);
    auto const y = net.at(i).forward(c, x, kept);
    ops::copy(c.stream, x.span(), std::span<T const>(y.span()));
  }
  if (wanted == 0) return {};
  return net.logits(c, x.slice(batch.length - wanted, batch.length));
}

}  // namespace detail

/// Arena bytes of a pass over `rows` tokens with logits of the last `wanted` of them, measured on
/// the meta device.
template <class T>
[[nodiscard]] std::size_t generation_bytes(model<T> const& net, index rows, index wanted = 1) {
  meta::stream stream;
  arena memory;
  context<meta::stream> c{stream, memory, pass::inference, {}, rows};
  microbatch const batch{.ids = {nullptr, {rows}}, .labels = {}, .sequences = 1, .length = rows};
  parallel::meta::device device;
  generation_cache<T> cache(net.config(), rows, device);
  static_cast<void>(detail::last_logits(
      net, c, batch, [&](std::size_t i) { return &cache.at(i); }, 0, wanted));
  return memory.peak();
}

/// Adds `ids`, which lie on `device`, to the cache; logits [wanted * V] of the last of them, row by
/// row.
template <class T, class Device>
[[nodiscard]] std::vector<float> next_logits(model<T> const& net, Device const& device,
                                             typename Device::stream_type& stream, arena& memory,
                                             generation_cache<T>& cache,
                                             vector_view<std::int32_t const> ids,
                                             index wanted = 1) {
  arena::scope const everything(memory);
  index const rows = ids.size();
  context<typename Device::stream_type> c{stream, memory, pass::inference, {}, rows};
  microbatch const batch{.ids = ids, .labels = {}, .sequences = 1, .length = rows};
  auto const logits = detail::last_logits(
      net, c, batch, [&](std::size_t i) { return &cache.at(i); }, cache.length(), wanted);
  stream.synchronize();
  std::vector<float> out;
  if (wanted > 0)
    parallel::read_on_host(device, logits.span(),
                           [&](auto all) { out.assign(all.begin(), all.end()); });
  return out;
}

/// Continues `prompt`, calling token(id) for each new id, until max_new_tokens, end_of_text,
/// options.last, or the model's longest sequence. Returns the new ids.
template <class T, class Device>
std::vector<std::int32_t> generate(model<T> const& net, Device& device,
                                   typename Device::stream_type& stream,
                                   std::span<std::int32_t const> prompt,
                                   generation_options const& options,
                                   std::function<void(std::int32_t)> const& token = {}) {
  auto const length = static_cast<index>(prompt.size());
  index const longest = net.config().max_seq_len;
  require(length > 0, "the prompt has no tokens; give at least one word");
  require(length < longest, "the prompt has ", length, " tokens, but the model reads at most ",
          longest - 1, " before a new one");
  index const wanted = std::min<index>(options.max_new_tokens, longest - length);
  generation_cache<T> cache(net.config(), length + wanted, device);

  arena memory(device.template allocate<std::byte>(generation_bytes(net, length)));
  auto const ids = device.template allocate<std::int32_t>(prompt.size());

  std::vector<std::int32_t> out;
  sampler choose(options.sampling);
  token_history history(options.history, prompt);
  std::vector<std::int32_t> next(prompt.begin(), prompt.end());
  while (static_cast<index>(out.size()) < wanted) {
    auto const here = ids.span().first(next.size());
    device.upload(here, std::span<std::int32_t const>(next));
    auto logits = next_logits(
        net, device, stream, memory, cache,
        vector_view<std::int32_t const>(here.data(), {static_cast<index>(here.size())}));
    history.apply(logits);
    auto const id = choose.pick(logits);
    if (id == options.end_of_text) break;
    out.push_back(id);
    history.add(id);
    if (token) token(id);
    if (options.last && options.last(id)) break;
    next.assign(1, id);
  }
  return out;
}

}  // namespace mpt
