#include <mpt/yaml/reader.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/yaml/nearest.hpp>

namespace mpt {
namespace {

/// "'a'", "'a' or 'b'", "'a', 'b' or 'c'"; `last` separates the last two words.
[[nodiscard]] std::string quoted_list(std::initializer_list<std::string_view> words,
                                      std::string_view last = " or ") {
  std::string text;
  std::size_t remaining = words.size();
  for (std::string_view const word : words) {
    text += parallel::concat("'", word, "'");
    --remaining;
    if (remaining > 0) text += remaining == 1 ? last : std::string_view(", ");
  }
  return text;
}

}  // namespace

config_reader::config_reader(config_node const& node, std::string path, config_report& report)
    : node_(&node), location_(node.location), path_(std::move(path)), report_(&report) {
  parallel::require(node.is_map() || node.is_null(), node.location, ": ",
                    path_.empty() ? "the document" : path_, ": expected a mapping, found ",
                    describe(node));
}

bool config_reader::has_key(std::string_view key) const {
  config_node const* const value = find(key);
  return value != nullptr && !value->is_null();
}

bool config_reader::is_named(std::string_view key) {
  register_key(key, key_role::effective);
  return is_present(key);
}

config_reader config_reader::section(std::string_view key) {
  register_key(key, key_role::effective, "a mapping");
  config_reader result(has_key(key) ? *find(key) : nothing_, full_name(key), *report_);
  if (!has_key(key)) result.location_ = location_of(key);
  return result;
}

config_reader config_reader::members(std::string_view key) const {
  return {has_key(key) ? *find(key) : nothing_, full_name(key), *report_};
}

config_node const* config_reader::raw(std::string_view key) {
  register_key(key, key_role::effective);
  return has_key(key) ? find(key) : nullptr;
}

config_node const* config_reader::peek(std::string_view key) const {
  return has_key(key) ? find(key) : nullptr;
}

void config_reader::accept_without_effect(std::string_view key, std::string_view reason) {
  register_key(key, key_role::without_effect);
  document_key(key, {}, {}, reason);
  report_without_effect(key, reason);
}

void config_reader::report_without_effect(std::string_view key, std::string_view reason) {
  if (find(key) != nullptr) report_->ignored.push_back({full_name(key), std::string(reason)});
}

void config_reader::report_unreferenced(std::string_view key) {
  config_node const* const node = raw(key);
  if (node == nullptr) return;
  for_each_leaf(*node, full_name(key),
                [&](std::string const& name, config_key const& member, auto&) {
                  if (member.is_unused)
                    report_->ignored.push_back({printable(name), "nothing refers to it"});
                });
}

void config_reader::report_all_without_effect(std::initializer_list<std::string_view> keys,
                                              std::string_view reason) {
  for (std::string_view const key : keys) report_without_effect(key, reason);
}

void config_reader::refuse_unsupported(std::string_view key, std::string_view supported,
                                       std::initializer_list<std::string_view> accepted) {
  register_key(key, key_role::restricted);
  document_key(key, {}, {}, supported);
  if (!has_key(key)) return;
  config_node const& value = *find(key);
  if (value.is_scalar())
    for (std::string_view const word : accepted)
      if (same_scalar(value, word)) return;
  if (value.items.empty() && !value.is_scalar()) return;  // {} or []
  parallel::fail(
      value.location, ": ", full_name(key), ": ",
      value.is_scalar() ? parallel::concat("'", printable(value.text), "' is ") : std::string(),
      "not yet supported; ", supported);
}

void config_reader::refuse_named(std::string_view key, std::string_view instead) {
  register_key(key, key_role::restricted);
  document_key(key, {}, {}, instead);
  check(key, !is_present(key), "not yet supported; leave it out; ", instead);
}

std::string config_reader::one_of(std::string_view key, std::string fallback,
                                  std::initializer_list<std::string_view> words) {
  std::string value = get<std::string>(key, std::move(fallback));
  document_key(key, quoted_list(words), {}, {});
  for (std::string_view const word : words)
    if (value == word) return value;
  fail(key, "expected ", quoted_list(words), ", found '", printable(value), "'");
}

std::string const& config_reader::location_of(std::string_view key) const {
  config_node const* const value = find(key);
  return value != nullptr ? value->location : location_;
}

std::string config_reader::full_name(std::string_view key) const {
  return path_.empty() ? std::string(key) : parallel::concat(path_, ".", key);
}

void config_reader::finish(bool list_supported) const {
  auto supported = requested_keys_;  // those whose values are not refused
  std::erase_if(supported, [&](std::string const& name) {
    return std::ranges::any_of(report_->known, [&](known_key const& known) {
      return known.role == key_role::restricted && known.name == full_name(name);
    });
  });
  for (config_key const& key : node_->keys) {
    bool known = false;
    for (std::string const& name : requested_keys_) known = known || name == key.name;
    if (known) continue;
    auto const inner = known_key_below(key.name);
    auto const nearest = nearest_name(key.name, supported);
    std::string advice;
    if (!inner.empty())
      advice = parallel::concat("; did you mean '", inner, "'?");
    else if (!nearest.empty())
      advice = parallel::concat("; did you mean '", full_name(nearest), "'?");
    if (list_supported)
      advice += parallel::concat(advice.empty() ? "; there are " : " There are ", supported_keys());
    parallel::fail(key.location, ": ", full_name(printable(key.name)), ": unknown key", advice);
  }
}

std::string config_reader::known_key_below(std::string_view key) const {
  auto const ending = parallel::concat(".", key);
  auto const beginning = full_name("");
  for (known_key const& known : report_->known)
    if (known.role == key_role::effective && known.name.ends_with(ending) &&
        known.name.starts_with(beginning) &&
        known.name.size() > beginning.size() + ending.size() - 1)
      return known.name;
  return {};
}

std::string config_reader::supported_keys() const {
  std::string out;
  for (std::string const& requested : requested_keys_)
    for (known_key const& known : report_->known)
      if (known.name == full_name(requested) && known.role != key_role::restricted)
        out.append(out.empty() ? "" : ", ").append(requested);
  return out;
}

bool config_reader::is_present(std::string_view key) const {
  config_node const* const value = find(key);
  return value != nullptr && (!value->is_null() || value->location != "command line");
}

void config_reader::register_key(std::string_view key, key_role role, std::string_view form) {
  auto name = full_name(key);
  for (std::string const& requested : requested_keys_) {
    if (requested != key) continue;
    if (role == key_role::effective)
      for (known_key& known : report_->known)
        if (known.name == name) known.role = role;
    return;
  }
  requested_keys_.emplace_back(key);
  report_->known.push_back({std::move(name), role, std::string(form)});
}

void config_reader::document_key(std::string_view key, std::string_view form,
                                 std::string_view fallback, std::string_view remark) {
  auto const name = full_name(key);
  auto const known = std::find_if(report_->known.rbegin(), report_->known.rend(),
                                  [&](known_key const& other) { return other.name == name; });
  if (known == report_->known.rend()) return;
  if (!form.empty()) known->form = form;
  if (!fallback.empty()) known->fallback = fallback;
  if (!remark.empty()) known->remark = remark;
}

bool config_reader::same_scalar(config_node const& value, std::string_view word) {
  if (value.text == word) return true;
  auto const number = parse_number(value.text);
  if (number && number == parse_number(word)) return true;
  auto const truth = parse_bool(value.text);
  return truth && truth == parse_bool(word);
}

}  // namespace mpt
