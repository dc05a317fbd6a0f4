#include <mpt/config/model/read_model.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace mpt {
namespace {

/// LLM Foundry's module names, and ParallelLM's `norm_ffn` and `norms_and_activation`, with the
/// recomputed parts that they stand for.
constexpr std::array<std::pair<std::string_view, bool recomputation::*>, 10> recompute_targets = {
    {{"mptblock", &recomputation::block},
     {"MPTBlock", &recomputation::block},
     {"norm_attn_norm", &recomputation::attention_branch},
     {"grouped_query_attention", &recomputation::attention},
     {"multihead_attention", &recomputation::attention},
     {"multiquery_attention", &recomputation::attention},
     {"norm_ffn", &recomputation::feed_forward_branch},
     {"mptmlp", &recomputation::feed_forward},
     {"mptglu", &recomputation::feed_forward},
     {"norms_and_activation", &recomputation::cheap}}};

/// The range of blocks that a word such as "first-2" selects; nothing when it is no such word.
[[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> selected_range(
    std::string_view word, std::int64_t blocks) {
  auto const dash = word.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  auto const kind = word.substr(0, dash);
  auto remaining = word.substr(dash + 1);
  auto const number = [&]() -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    auto const [end, error] =
        std::from_chars(remaining.data(), remaining.data() + remaining.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    remaining.remove_prefix(static_cast<std::size_t>(end - remaining.data()));
    return std::min(value, blocks);
  };
  auto const count = number();
  if (!count) return std::nullopt;
  if (kind == "range") {
    if (!remaining.starts_with('-')) return std::nullopt;
    remaining.remove_prefix(1);
    auto const end = number();
    if (!end || !remaining.empty()) return std::nullopt;
    return std::pair{*count, *end};
  }
  if (!remaining.empty()) return std::nullopt;
  if (kind == "first") return std::pair{std::int64_t{0}, *count};
  if (kind == "last") return std::pair{blocks - *count, blocks};
  if (kind != "middle") return std::nullopt;
  auto const begin = std::max<std::int64_t>((blocks - 1) / 2 - *count / 2, 0);
  return std::pair{begin, std::min(begin + *count, blocks)};
}

/// The blocks that `selector` selects.
[[nodiscard]] std::vector<bool> read_selector(config_node const& selector, std::string const& name,
                                              std::int64_t blocks) {
  std::vector<bool> out(static_cast<std::size_t>(blocks));
  auto const refuse = [&](config_node const& node) {
    parallel::fail(node.location, ": ", name, ": expected a count of first blocks, 'first-n', ",
                   "'middle-n', 'last-n' or 'range-i-j', or a list of those and of block numbers, ",
                   "found ", describe(node));
  };
  auto const number = [](config_node const& node) -> std::optional<std::int64_t> {
    auto const value = node.is_string ? std::nullopt : parse_integer(node.text);
    return value && *value >= 0 ? value : std::nullopt;
  };
  auto const add = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < std::min(end, blocks); ++i) out[static_cast<std::size_t>(i)] = true;
  };
  auto const add_words = [&](config_node const& node) {
    std::string text = node.text;
    std::erase(text, ' ');
    for (std::string_view remaining = text; true;) {
      auto const comma = remaining.find(',');
      auto const range = selected_range(remaining.substr(0, comma), blocks);
      if (!range) refuse(node);
      add(range->first, range->second);
      if (comma == std::string_view::npos) return;
      remaining.remove_prefix(comma + 1);
    }
  };
  if (selector.is_list()) {
    for (auto const& item : selector.items) {
      if (!item.is_scalar()) refuse(item);
      if (auto const block = number(item)) {
        parallel::require(*block < blocks, item.location, ": ", name, ": there is no block ",
                          *block, "; the model has ", blocks, ", counted from 0");
        add(*block, *block + 1);
      } else {
        add_words(item);
      }
    }
  } else {
    if (!selector.is_scalar()) refuse(selector);
    if (auto const count = number(selector))
      add(0, *count);
    else
      add_words(selector);
  }
  return out;
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

block_recomputation read_recompute(config_reader& reader, std::int64_t blocks) {
  constexpr std::string_view key = "activation_checkpointing_target";
  auto const all_blocks = std::vector<bool>(static_cast<std::size_t>(blocks), true);
  config_node const* const node = reader.raw(key);
  if (node == nullptr || (node->is_list() && node->items.empty()))
    return recompute_all(all_blocks.size());
  block_recomputation out(all_blocks.size());
  auto const add = [&](std::string const& name, std::string const& location,
                       std::vector<bool> const& selected) {
    auto const* const target =
        std::ranges::find(recompute_targets, std::string_view(name),
                          &std::pair<std::string_view, bool recomputation::*>::first);
    std::string known;
    for (auto const& [word, member] : recompute_targets)
      known.append(known.empty() ? "" : ", ").append(word);
    parallel::require(target != recompute_targets.end(), location, ": ", reader.full_name(key),
                      ": '", printable(name),
                      "' is not a module whose activations can be made again; ", "there are ",
                      known);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (selected[i]) out[i].*target->second = true;
  };
  if (node->is_scalar()) {
    add(node->text, node->location, all_blocks);
  } else if (node->is_list()) {
    for (auto const& item : node->items) {
      parallel::require(item.is_scalar(), item.location, ": ", reader.full_name(key),
                        ": expected the name of a module, found ", describe(item));
      add(item.text, item.location, all_blocks);
    }
  } else {
    for (std::size_t i = 0; i < node->items.size(); ++i)
      add(node->keys[i].name, node->keys[i].location,
          read_selector(node->items[i],
                        parallel::concat(reader.full_name(key), '.', node->keys[i].name), blocks));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const& block = out[i];
    int const attention = block.attention_branch + block.attention;
    int const feed_forward = block.feed_forward_branch + block.feed_forward;
    reader.check(
        key, attention <= 1 && feed_forward <= 1 && !(block.block && attention + feed_forward > 0),
        "block ", i, " is given twice: one of its modules contains the other; name each ",
        "block under one of them");
  }
  return out;
}

}  // namespace mpt::detail
