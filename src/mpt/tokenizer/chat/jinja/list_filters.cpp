#include <mpt/tokenizer/chat/jinja/list_filters.hpp>

#include <algorithm>
#include <utility>

namespace mpt::jinja::filters {
namespace {

[[nodiscard]] std::vector<value> read_items(environment& state, value const& operand) {
  state.work.spend(weight(operand));
  return iterate(operand);
}

[[nodiscard]] value iterator(environment& state, std::vector<value> items) {
  return new_sequence(state, sequence_kind::iterator, std::move(items));
}

[[nodiscard]] bool is_digits(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The value that a path such as "user.0.name" leads to; with `otherwise`, that in place of what is
/// undefined.
[[nodiscard]] value at_path(environment& state, value item, value const* path,
                            value const* otherwise = nullptr) {
  if (!is_given(path)) return item;
  auto const step = [&](value const& key) {
    item = get_item(state, item, key);
    if (otherwise != nullptr && !otherwise->is<none>() && item.is_undefined()) item = *otherwise;
  };
  if (!path->is_text()) {
    step(*path);
    return item;
  }
  for (std::string_view rest = *path->string();;) {
    auto const part = rest.substr(0, rest.find('.'));
    step(is_digits(part) ? value(std::int64_t{std::stoll(std::string(part))})
                         : make_text(std::string(part)));
    if (part.size() == rest.size()) return item;
    rest.remove_prefix(part.size() + 1);
  }
}

/// The paths between the commas of "name,age".
[[nodiscard]] std::vector<value> split_paths(environment& state, value const& paths) {
  arguments args{.positional = {paths, make_text(",")}};
  return iterate(find_method(paths, "split")(state, args));
}

[[nodiscard]] value without_case(environment& state, value const& key) {
  if (!key.is_text()) return key;
  arguments args{.positional = {key}};
  return find_filter("lower")(state, args);
}

/// Sorts by keys, which are compared as in Python.
[[nodiscard]] std::vector<value> sorted(environment& state, std::vector<value> items,
                                        std::vector<value> const& keys, bool is_descending) {
  std::size_t work = 0;
  for (auto const& key : keys) work += weight(key);
  state.work.spend(work + 64 * items.size());
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t left, std::size_t right) {
    state.work.spend(8);
    return is_descending ? is_less(keys[right], keys[left]) : is_less(keys[left], keys[right]);
  });
  std::vector<value> out;
  for (auto const i : order) out.push_back(std::move(items[i]));
  return out;
}

[[nodiscard]] bool is_flag_set(value const* argument) {
  return argument != nullptr && is_true(*argument);
}

/// map, select and their kin: the value at the front and the arguments for each item.
struct item_call {
  std::vector<value> items;
  arguments args;
};
[[nodiscard]] item_call split_call(environment& state, arguments& args) {
  auto const operand = args.positional.at(0);
  item_call out{.items = {},
                .args = {.positional = {args.positional.begin() + 1, args.positional.end()},
                         .named = args.named}};
  if (is_true(operand)) out.items = read_items(state, operand);
  return out;
}

/// The items whose attribute, or which themselves, pass the test that the arguments name.
[[nodiscard]] value filtered(environment& state, arguments& args, bool by_attribute, bool wanted) {
  auto call = split_call(state, args);
  auto& positional = call.args.positional;
  value path = none{};
  if (by_attribute) {
    if (positional.empty()) throw render_error("Missing parameter for attribute name");
    path = positional.front();
    positional.erase(positional.begin());
  }
  builtin test = nullptr;
  if (!positional.empty()) {
    auto const name = require_text(positional.front());
    positional.erase(positional.begin());
    test = find_test(name);
    if (test == nullptr) throw render_error("the test '" + name + "' is not supported");
  }
  std::vector<value> out;
  for (auto const& item : call.items) {
    state.work.spend(32);
    auto tested = at_path(state, item, &path);
    auto item_arguments = call.args;
    item_arguments.positional.insert(item_arguments.positional.begin(), tested);
    bool const passes = is_true(test == nullptr ? tested : test(state, item_arguments));
    if (passes == wanted) out.push_back(item);
  }
  return iterator(state, std::move(out));
}

[[nodiscard]] value extreme(environment& state, arguments& args, bool is_maximum) {
  auto const bound =
      bind(args, is_maximum ? "max" : "min", {"value", "case_sensitive", "attribute"}, 1);
  auto const items = read_items(state, *bound[0]);
  if (items.empty()) return make_undefined("No aggregated item, sequence was empty.");
  auto const key = [&](value const& item) {
    auto const found = at_path(state, item, bound[2]);
    return is_flag_set(bound[1]) ? found : without_case(state, found);
  };
  auto const* best = &items.front();
  auto best_key = key(*best);
  for (auto const& item : items) {
    if (&item == best) continue;
    auto item_key = key(item);
    bool const is_better =
        is_maximum ? is_less(best_key, item_key, ">") : is_less(item_key, best_key);
    if (!is_better) continue;
    best = &item;
    best_key = std::move(item_key);
  }
  return *best;
}

}  // namespace

value map_items(environment& state, arguments& args) {
  auto call = split_call(state, args);
  auto& positional = call.args.positional;
  std::vector<value> out;
  if (positional.empty()) {
    auto const bound = bind(call.args, "map", {"attribute", "default"}, 1);
    for (auto const& item : call.items) {
      state.work.spend(32);
      out.push_back(at_path(state, item, bound[0], bound[1]));
    }
    return iterator(state, std::move(out));
  }
  auto const name = require_text(positional.front());
  positional.erase(positional.begin());
  auto const filter = find_filter(name);
  if (filter == nullptr) throw render_error("the filter '" + name + "' is not supported");
  for (auto const& item : call.items) {
    state.work.spend(32);
    auto item_arguments = call.args;
    item_arguments.positional.insert(item_arguments.positional.begin(), item);
    out.push_back(filter(state, item_arguments));
  }
  return iterator(state, std::move(out));
}

value select(environment& state, arguments& args) { return filtered(state, args, false, true); }
value reject(environment& state, arguments& args) { return filtered(state, args, false, false); }
value select_attribute(environment& state, arguments& args) {
  return filtered(state, args, true, true);
}
value reject_attribute(environment& state, arguments& args) {
  return filtered(state, args, true, false);
}
value largest(environment& state, arguments& args) { return extreme(state, args, true); }
value smallest(environment& state, arguments& args) { return extreme(state, args, false); }

value sort(environment& state, arguments& args) {
  auto const bound = bind(args, "sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  auto items = read_items(state, *bound[0]);
  std::vector<value> paths;
  if (is_given(bound[3]) && bound[3]->is_text())
    paths = split_paths(state, *bound[3]);
  else
    paths.push_back(is_given(bound[3]) ? *bound[3] : value(none{}));
  std::vector<value> keys;
  for (auto const& item : items) {
    std::vector<value> parts;
    for (auto const& path : paths) {
      auto const found = at_path(state, item, &path);
      parts.push_back(is_flag_set(bound[2]) ? found : without_case(state, found));
    }
    keys.push_back(new_sequence(state, sequence_kind::list, std::move(parts)));
  }
  return new_sequence(state, sequence_kind::list,
                      sorted(state, std::move(items), keys, is_flag_set(bound[1])));
}

value sort_dictionary(environment& state, arguments& args) {
  auto const bound = bind(args, "dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  auto const order = bound[2] == nullptr ? std::string("key") : to_string(*bound[2]);
  if (order != "key" && order != "value")
    throw render_error("You can only sort by either \"key\" or \"value\"");
  require_defined(*bound[0]);
  if (bound[0]->dictionary() == nullptr)
    throw render_error("'" + type_name(*bound[0]) + "' object has no attribute 'items'");
  std::vector<value> items;
  std::vector<value> keys;
  for (auto const& [key, item] : bound[0]->dictionary()->entries) {
    items.push_back(new_sequence(state, sequence_kind::tuple, {key, item}));
    auto const& sorted_by = order == "key" ? key : item;
    keys.push_back(is_flag_set(bound[1]) ? sorted_by : without_case(state, sorted_by));
  }
  return new_sequence(state, sequence_kind::list,
                      sorted(state, std::move(items), keys, is_flag_set(bound[3])));
}

value unique(environment& state, arguments& args) {
  auto const bound = bind(args, "unique", {"value", "case_sensitive", "attribute"}, 1);
  mapping seen;
  std::vector<value> out;
  for (auto const& item : read_items(state, *bound[0])) {
    auto key = at_path(state, item, bound[2]);
    if (!is_flag_set(bound[1])) key = without_case(state, key);
    state.work.spend(4 * seen.entries.size());
    if (find(seen, key) != nullptr) continue;
    assign(seen, key, none{});
    out.push_back(item);
  }
  return iterator(state, std::move(out));
}

value sum(environment& state, arguments& args) {
  auto const bound = bind(args, "sum", {"iterable", "attribute", "start"}, 1);
  auto out = bound[2] == nullptr ? value(std::int64_t{0}) : *bound[2];
  if (out.is_text()) throw render_error("sum() can't sum strings [use ''.join(seq) instead]");
  for (auto const& item : read_items(state, *bound[0]))
    out = calculate(state, "+", out, at_path(state, item, bound[1]));
  return out;
}

value join_items(environment& state, arguments& args) {
  auto const bound = bind(args, "join", {"value", "d", "attribute"}, 1);
  auto const separator = bound[1] == nullptr ? std::string() : to_string(*bound[1]);
  std::string out;
  bool is_first = true;
  for (auto const& item : read_items(state, *bound[0])) {
    auto const found = at_path(state, item, bound[2]);
    state.work.spend(separator.size() + weight(found));
    if (!std::exchange(is_first, false)) out += separator;
    out += to_string(found);
  }
  return new_text(state, std::move(out));
}

value first_item(environment& state, arguments& args) {
  auto const& operand = *bind(args, "first", {"seq"}, 1)[0];
  auto* const list = operand.items();
  if (list == nullptr) state.work.spend(weight(operand));
  auto const rest = list == nullptr ? iterate(operand) : std::vector<value>();
  auto& items = list == nullptr ? rest : list->items;
  if (items.empty()) return make_undefined("No first item, sequence was empty.");
  auto out = items.front();
  if (list != nullptr && list->kind == sequence_kind::iterator) {
    state.work.spend(16 * items.size());
    list->items.erase(list->items.begin());
  }
  return out;
}

value last_item(environment& state, arguments& args) {
  auto const& operand = *bind(args, "last", {"seq"}, 1)[0];
  auto const* const list = operand.items();
  if (list != nullptr && list->kind == sequence_kind::iterator)
    throw render_error("'generator' object is not reversible");
  auto const items = read_items(state, operand);
  return items.empty() ? make_undefined("No last item, sequence was empty.") : items.back();
}

value reverse(environment& state, arguments& args) {
  auto const& operand = *bind(args, "reverse", {"value"}, 1)[0];
  if (operand.is_text()) return get_slice(state, operand, none{}, none{}, std::int64_t{-1});
  auto items = read_items(state, operand);
  std::ranges::reverse(items);
  bool const is_iterator =
      operand.items() != nullptr && operand.items()->kind == sequence_kind::iterator;
  return new_sequence(state, is_iterator ? sequence_kind::list : sequence_kind::iterator,
                      std::move(items));
}

value list_items(environment& state, arguments& args) {
  return new_sequence(state, sequence_kind::list,
                      read_items(state, *bind(args, "list", {"value"}, 1)[0]));
}

value pairs(environment& state, arguments& args) {
  auto const& operand = *bind(args, "items", {"value"}, 1)[0];
  if (operand.is_undefined()) return iterator(state, {});
  if (operand.dictionary() == nullptr)
    throw render_error("Can only get item pairs from a mapping.");
  return iterator(state, iterate(find_method(operand, "items")(state, args)));
}

}  // namespace mpt::jinja::filters
