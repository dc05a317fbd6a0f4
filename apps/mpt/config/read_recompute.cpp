#include <mpt/config/read_recompute.hpp>

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

/// LLM Foundry's module names, and `norm_ffn` and `norms_and_activation` of ours, by what they are
/// here.
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

/// The blocks that a word of a selector names; nothing when it is none.
[[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> selected_range(
    std::string_view word, std::int64_t blocks) {
  auto const dash = word.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  auto const kind = word.substr(0, dash);
  auto rest = word.substr(dash + 1);
  auto const number = [&]() -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    auto const [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (failed != std::errc() || value < 0) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return std::min(value, blocks);
  };
  auto const n = number();
  if (!n) return std::nullopt;
  if (kind == "range") {
    if (!rest.starts_with('-')) return std::nullopt;
    rest.remove_prefix(1);
    auto const end = number();
    if (!end || !rest.empty()) return std::nullopt;
    return std::pair{*n, *end};
  }
  if (!rest.empty()) return std::nullopt;
  if (kind == "first") return std::pair{std::int64_t{0}, *n};
  if (kind == "last") return std::pair{blocks - *n, blocks};
  if (kind != "middle") return std::nullopt;
  auto const begin = std::max<std::int64_t>((blocks - 1) / 2 - *n / 2, 0);
  return std::pair{begin, std::min(begin + *n, blocks)};
}

/// Which blocks `node`, a selector, names.
[[nodiscard]] std::vector<bool> read_selector(config_node const& node, std::string const& name,
                                              std::int64_t blocks) {
  std::vector<bool> out(static_cast<std::size_t>(blocks));
  auto const refuse = [&](config_node const& at) {
    parallel::fail(at.place, ": ", name, ": expected a count of first blocks, 'first-n', ",
                   "'middle-n', 'last-n' or 'range-i-j', or a list of those and of block numbers, ",
                   "found ", describe(at));
  };
  auto const number = [](config_node const& at) -> std::optional<std::int64_t> {
    auto const value = at.is_string ? std::nullopt : parse_integer(at.text);
    return value && *value >= 0 ? value : std::nullopt;
  };
  auto const add = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < std::min(end, blocks); ++i) out[static_cast<std::size_t>(i)] = true;
  };
  auto const add_words = [&](config_node const& at) {
    std::string text = at.text;
    std::erase(text, ' ');
    for (std::string_view left = text; true;) {
      auto const comma = left.find(',');
      auto const range = selected_range(left.substr(0, comma), blocks);
      if (!range) refuse(at);
      add(range->first, range->second);
      if (comma == std::string_view::npos) return;
      left.remove_prefix(comma + 1);
    }
  };
  if (node.is_list()) {
    for (auto const& one : node.items) {
      if (!one.is_scalar()) refuse(one);
      if (auto const block = number(one)) {
        parallel::require(*block < blocks, one.place, ": ", name, ": there is no block ", *block,
                          "; the model has ", blocks, ", counted from 0");
        add(*block, *block + 1);
      } else {
        add_words(one);
      }
    }
  } else {
    if (!node.is_scalar()) refuse(node);
    if (auto const count = number(node))
      add(0, *count);
    else
      add_words(node);
  }
  return out;
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

block_recomputation read_recompute(config_reader& reader, std::int64_t blocks) {
  constexpr std::string_view key = "activation_checkpointing_target";
  auto const all = std::vector<bool>(static_cast<std::size_t>(blocks), true);
  config_node const* const node = reader.raw(key);
  if (node == nullptr || (node->is_list() && node->items.empty())) return recompute_all(all.size());
  block_recomputation out(all.size());
  auto const add = [&](std::string const& name, std::string const& place,
                       std::vector<bool> const& where) {
    auto const* const target =
        std::ranges::find(recompute_targets, std::string_view(name),
                          &std::pair<std::string_view, bool recomputation::*>::first);
    std::string known;
    for (auto const& [word, part] : recompute_targets)
      known.append(known.empty() ? "" : ", ").append(word);
    parallel::require(target != recompute_targets.end(), place, ": ", reader.full_name(key), ": '",
                      printable(name), "' is not a module whose activations can be made again; ",
                      "there are ", known);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (where[i]) out[i].*target->second = true;
  };
  if (node->is_scalar()) {
    add(node->text, node->place, all);
  } else if (node->is_list()) {
    for (auto const& one : node->items) {
      parallel::require(one.is_scalar(), one.place, ": ", reader.full_name(key),
                        ": expected the name of a module, found ", describe(one));
      add(one.text, one.place, all);
    }
  } else {
    for (std::size_t i = 0; i < node->items.size(); ++i)
      add(node->keys[i].name, node->keys[i].place,
          read_selector(node->items[i],
                        parallel::concat(reader.full_name(key), '.', node->keys[i].name), blocks));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const& r = out[i];
    int const attention = r.attention_branch + r.attention;
    int const feed_forward = r.feed_forward_branch + r.feed_forward;
    reader.check(key,
                 attention <= 1 && feed_forward <= 1 && !(r.block && attention + feed_forward > 0),
                 "block ", i, " is given twice: one of its modules contains the other; name each ",
                 "block under one of them");
  }
  return out;
}

}  // namespace mpt::detail
