#include <mpt/tokenizer/chat/jinja/value.hpp>

#include <algorithm>
#include <cmath>

#include <mpt/tokenizer/python_string.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

[[nodiscard]] std::size_t depth(value const& operand) {
  if (auto const* const list = operand.items()) return list->depth;
  if (auto const* const dictionary = operand.dictionary()) return dictionary->depth;
  if (auto const* const other = operand.other()) return other->depth;
  return 0;
}

constexpr std::size_t max_depth = 200;

/// Counts an item in the depth and the weight of its container.
template <class Container>
void count_item(Container& container, value const& item) {
  constexpr std::size_t max_weight = std::size_t{1} << 28;
  container.depth = std::max(container.depth, depth(item) + 1);
  container.weight += weight(item) + 2;
  if (container.depth > max_depth) throw render_error("a value is nested too deep");
  if (container.weight > max_weight) throw render_error("it needs too much memory");
}

void require_hashable(value const& key) {
  auto const* const list = key.items();
  if ((list != nullptr && list->kind != sequence_kind::tuple &&
       list->kind != sequence_kind::range) ||
      key.dictionary() != nullptr)
    throw render_error("unhashable type: '" + type_name(key) + "'");
}

[[nodiscard]] bool are_ordered_lists(sequence const* left, sequence const* right) {
  return left != nullptr && right != nullptr && left->kind == right->kind &&
         (left->kind == sequence_kind::list || left->kind == sequence_kind::tuple);
}

}  // namespace

value holding(value holder, value const& held) {
  auto& outer_depth = holder.other()->depth;
  outer_depth = std::max(outer_depth, depth(held) + 1);
  if (outer_depth > max_depth) throw render_error("a value is nested too deep");
  return holder;
}

std::string const* value::string() const {
  auto const* const found = std::get_if<text>(this);
  return found == nullptr ? nullptr : found->utf8.get();
}
sequence* value::items() const {
  auto const* const found = std::get_if<std::shared_ptr<sequence>>(this);
  return found == nullptr ? nullptr : found->get();
}
mapping* value::dictionary() const {
  auto const* const found = std::get_if<std::shared_ptr<mapping>>(this);
  return found == nullptr ? nullptr : found->get();
}
object* value::other() const {
  auto const* const found = std::get_if<std::shared_ptr<object>>(this);
  return found == nullptr ? nullptr : found->get();
}
std::optional<std::int64_t> value::integer() const {
  if (auto const* const found = std::get_if<bool>(this)) return *found ? 1 : 0;
  if (auto const* const found = std::get_if<std::int64_t>(this)) return *found;
  return std::nullopt;
}
std::optional<double> value::number() const {
  if (auto const* const found = std::get_if<double>(this)) return *found;
  auto const whole = integer();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::vector<value const*> bind(arguments const& args, std::string_view function,
                               std::initializer_list<std::string_view> parameters,
                               std::size_t required) {
  std::string const name(function);
  if (args.positional.size() > parameters.size())
    throw render_error(name + "() takes at most " + std::to_string(parameters.size()) +
                       " arguments, " + std::to_string(args.positional.size()) + " were given");
  std::vector<value const*> out(parameters.size(), nullptr);
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (auto const& [keyword, argument] : args.named) {
    auto const* const found = std::ranges::find(parameters, std::string_view(keyword));
    if (found == parameters.end())
      throw render_error(name + "() has no argument '" + keyword + "'");
    auto& bound = out[static_cast<std::size_t>(found - parameters.begin())];
    if (bound != nullptr)
      throw render_error(name + "() got multiple values for argument '" + keyword + "'");
    bound = &argument;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (out[i] == nullptr)
      throw render_error(name + "() lacks the argument '" + std::string(parameters.begin()[i]) +
                         "'");
  return out;
}

value make_text(std::string utf8, bool is_markup) {
  return text{std::make_shared<std::string const>(std::move(utf8)), is_markup};
}
value make_undefined(std::string message) {
  return undefined{std::make_shared<std::string const>(std::move(message))};
}
value make_sequence(sequence_kind kind, std::vector<value> items, std::string description) {
  sequence out{kind, {}, std::move(description)};
  for (auto const& item : items) count_item(out, item);
  out.items = std::move(items);
  return std::make_shared<sequence>(std::move(out));
}
value make_mapping(std::vector<std::pair<value, value>> entries) {
  mapping out;
  for (auto const& [key, item] : entries) assign(out, key, item);
  return std::make_shared<mapping>(std::move(out));
}
value make_function(std::string description, std::function<value(arguments&)> call) {
  return std::make_shared<object>(
      object{.description = std::move(description), .call = std::move(call)});
}

value from_json(nlohmann::ordered_json const& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return make_text(json.get<std::string>());
  if (json.is_array()) {
    std::vector<value> items;
    for (auto const& item : json) items.push_back(from_json(item));
    return make_sequence(sequence_kind::list, std::move(items));
  }
  if (!json.is_object()) return none{};
  std::vector<std::pair<value, value>> entries;
  for (auto const& [key, item] : json.items())
    entries.emplace_back(make_text(key), from_json(item));
  return make_mapping(std::move(entries));
}

std::size_t weight(value const& operand) {
  if (auto const* const string = operand.string()) return string->size() + 2;
  if (auto const* const list = operand.items()) return list->weight;
  if (auto const* const dictionary = operand.dictionary()) return dictionary->weight;
  return 8;
}

value* find(mapping const& entries, value const& key) {
  require_hashable(key);
  for (auto const& [other, item] : entries.entries)
    if (equals(other, key)) return const_cast<value*>(&item);
  return nullptr;
}
void assign(mapping& entries, value const& key, value const& assigned) {
  if (auto* const found = find(entries, key)) {
    entries.weight -= weight(*found) + 2;
    count_item(entries, assigned);
    *found = assigned;
    return;
  }
  count_item(entries, key);
  count_item(entries, assigned);
  entries.entries.emplace_back(key, assigned);
}

bool is_true(value const& operand) {
  if (auto const* const found = std::get_if<bool>(&operand)) return *found;
  if (auto const number = operand.number()) return *number != 0;
  if (auto const* const string = operand.string()) return !string->empty();
  if (auto const* const list = operand.items())
    return list->kind == sequence_kind::iterator || !list->items.empty();
  if (auto const* const dictionary = operand.dictionary()) return !dictionary->entries.empty();
  return operand.other() != nullptr;
}

bool equals(value const& left, value const& right) {
  if (auto const a = left.integer(), b = right.integer(); a && b) return *a == *b;
  if (auto const a = left.number(), b = right.number(); a && b) return *a == *b;
  if (left.index() != right.index()) return false;
  if (auto const* const string = left.string()) return *string == *right.string();
  if (auto const* const list = left.items()) {
    auto const* const other = right.items();
    if (list == other) return true;
    if (list->kind != other->kind || list->kind == sequence_kind::iterator ||
        list->kind == sequence_kind::values)
      return false;
    return std::ranges::equal(list->items, other->items, equals);
  }
  if (auto const* const dictionary = left.dictionary()) {
    auto const* const other = right.dictionary();
    return dictionary->entries.size() == other->entries.size() &&
           std::ranges::all_of(dictionary->entries, [&](auto const& entry) {
             auto const* const found = find(*other, entry.first);
             return found != nullptr && equals(*found, entry.second);
           });
  }
  return left.other() == right.other();
}

bool is_less(value const& left, value const& right, std::string_view operation) {
  require_defined(left);
  require_defined(right);
  if (auto const a = left.integer(), b = right.integer(); a && b) return *a < *b;
  if (auto const a = left.number(), b = right.number(); a && b) return *a < *b;
  if (left.is_text() && right.is_text()) return *left.string() < *right.string();
  auto const* const list = left.items();
  auto const* const other = right.items();
  if (!are_ordered_lists(list, other))
    throw render_error("'" + std::string(operation) + "' not supported between instances of '" +
                       type_name(left) + "' and '" + type_name(right) + "'");
  auto const [first, second] = std::ranges::mismatch(list->items, other->items, equals);
  if (first == list->items.end() || second == other->items.end())
    return list->items.size() < other->items.size();
  return is_less(*first, *second, operation);
}

bool contains(value const& container, value const& item) {
  if (auto const* const string = container.string()) {
    if (!item.is_text())
      throw render_error("'in <string>' requires string as left operand, not " + type_name(item));
    return string->find(*item.string()) != std::string::npos;
  }
  if (auto const* const dictionary = container.dictionary())
    return find(*dictionary, item) != nullptr;
  if (container.items() == nullptr && !container.is_undefined() &&
      (container.other() == nullptr || !container.other()->iteration))
    throw render_error("argument of type '" + type_name(container) + "' is not iterable");
  return std::ranges::any_of(iterate(container),
                             [&](value const& other) { return equals(other, item); });
}

std::vector<value> iterate(value const& operand) {
  if (operand.is_undefined()) return {};
  if (auto* const list = operand.items()) {
    if (list->kind != sequence_kind::iterator) return list->items;
    return std::exchange(list->items, {});
  }
  std::vector<value> out;
  if (auto const* const dictionary = operand.dictionary()) {
    for (auto const& entry : dictionary->entries) out.push_back(entry.first);
  } else if (auto const* const string = operand.string()) {
    for (std::size_t begin = 0; begin < string->size();) {
      auto const bytes = utf8::read(*string, begin).bytes;
      out.push_back(make_text(string->substr(begin, bytes)));
      begin += bytes;
    }
  } else if (operand.other() != nullptr && operand.other()->iteration) {
    return operand.other()->iteration();
  } else {
    throw render_error("'" + type_name(operand) + "' object is not iterable");
  }
  return out;
}

std::int64_t length(value const& operand) {
  if (operand.is_undefined()) return 0;
  if (auto const* const string = operand.string())
    return std::ranges::count_if(*string, [](char c) { return (c & 0xC0) != 0x80; });
  if (auto const* const dictionary = operand.dictionary())
    return static_cast<std::int64_t>(dictionary->entries.size());
  auto const* const list = operand.items();
  if (list == nullptr || list->kind == sequence_kind::iterator)
    throw render_error("object of type '" + type_name(operand) + "' has no len()");
  return static_cast<std::int64_t>(list->items.size());
}

void require_defined(value const& operand) {
  auto const* const found = std::get_if<undefined>(&operand);
  if (found != nullptr)
    throw render_error(found->message ? *found->message : "a value is undefined");
}
std::string const& require_text(value const& operand) {
  require_defined(operand);
  if (!operand.is_text()) throw render_error("must be str, not " + type_name(operand));
  return *operand.string();
}
std::int64_t require_integer(value const& operand) {
  require_defined(operand);
  if (!operand.integer())
    throw render_error("'" + type_name(operand) + "' object cannot be interpreted as an integer");
  return *operand.integer();
}
bool is_given(value const* argument) { return argument != nullptr && !argument->is<none>(); }

}  // namespace mpt::jinja
