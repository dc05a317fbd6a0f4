// The tests of jinja2, which `is` asks.
#include <algorithm>
#include <array>
#include <utility>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/python_string.hpp>

namespace mpt::jinja {
namespace tests {
namespace {

/// A test of one value.
template <bool (*Test)(value const&)>
[[nodiscard]] value of_value(environment& /*state*/, arguments& args) {
  return Test(*bind(args, "test", {"value"}, 1)[0]);
}
/// A test of a value against another.
template <bool (*Test)(value const&, value const&)>
[[nodiscard]] value of_pair(environment& state, arguments& args) {
  auto const bound = bind(args, "test", {"value", "other"}, 2);
  state.work.spend((weight(*bound[0]) + weight(*bound[1])) / 16);
  return Test(*bound[0], *bound[1]);
}

bool is_defined(value const& tested) { return !tested.is_undefined(); }
bool is_undefined(value const& tested) { return tested.is_undefined(); }
bool is_none(value const& tested) { return tested.is<none>(); }
bool is_boolean(value const& tested) { return tested.is<bool>(); }
bool is_exactly_true(value const& tested) { return tested.is<bool>() && is_true(tested); }
bool is_exactly_false(value const& tested) { return tested.is<bool>() && !is_true(tested); }
bool is_integer(value const& tested) { return tested.is<std::int64_t>(); }
bool is_float(value const& tested) { return tested.is<double>(); }
bool is_number(value const& tested) { return tested.number().has_value(); }
bool is_string(value const& tested) { return tested.is_text(); }
bool is_mapping(value const& tested) { return tested.dictionary() != nullptr; }
bool is_lower(value const& tested) { return python::is_lower(python::decode(to_string(tested))); }
bool is_upper(value const& tested) { return python::is_upper(python::decode(to_string(tested))); }
bool is_callable(value const& tested) {
  return tested.is_undefined() || (tested.other() != nullptr && tested.other()->call);
}
bool is_escaped(value const& tested) {
  auto const* const found = std::get_if<text>(&tested);
  return found != nullptr && found->is_markup;
}
bool is_filter(value const& tested) {
  return tested.is_text() && find_filter(*tested.string()) != nullptr;
}
bool is_test(value const& tested) {
  return tested.is_text() && find_test(*tested.string()) != nullptr;
}
bool is_iterable(value const& tested) {
  return tested.is_undefined() || tested.is_text() || tested.items() != nullptr ||
         tested.dictionary() != nullptr || (tested.other() != nullptr && tested.other()->iteration);
}
bool is_sequence(value const& tested) {
  auto const* const list = tested.items();
  if (list == nullptr)
    return tested.is_undefined() || tested.is_text() || tested.dictionary() != nullptr;
  return list->kind == sequence_kind::list || list->kind == sequence_kind::tuple ||
         list->kind == sequence_kind::range;
}

bool is_same(value const& left, value const& right) {
  if (left.index() != right.index()) return false;
  if (left.is_undefined()) return false;
  if (left.items() != nullptr) return left.items() == right.items();
  if (left.dictionary() != nullptr) return left.dictionary() == right.dictionary();
  return equals(left, right);
}
bool differs(value const& left, value const& right) { return !equals(left, right); }
bool is_in(value const& left, value const& right) { return contains(right, left); }
bool is_less_than(value const& left, value const& right) { return is_less(left, right); }
bool is_greater(value const& left, value const& right) { return is_less(right, left, ">"); }
bool is_at_most(value const& left, value const& right) {
  return is_less(left, right, "<=") || equals(left, right);
}
bool is_at_least(value const& left, value const& right) {
  return is_less(right, left, ">=") || equals(left, right);
}

[[nodiscard]] value has_remainder(environment& state, value const& dividend, value const& divisor,
                                  value const& remainder) {
  return equals(calculate(state, "%", dividend, divisor), remainder);
}
value is_odd(environment& state, arguments& args) {
  return has_remainder(state, *bind(args, "odd", {"value"}, 1)[0], std::int64_t{2},
                       std::int64_t{1});
}
value is_even(environment& state, arguments& args) {
  return has_remainder(state, *bind(args, "even", {"value"}, 1)[0], std::int64_t{2},
                       std::int64_t{0});
}
value is_divisible(environment& state, arguments& args) {
  auto const bound = bind(args, "divisibleby", {"value", "num"}, 2);
  return has_remainder(state, *bound[0], *bound[1], std::int64_t{0});
}

using entry = std::pair<std::string_view, builtin>;

constexpr std::array table{
    entry{"boolean", of_value<is_boolean>},
    entry{"callable", of_value<is_callable>},
    entry{"defined", of_value<is_defined>},
    entry{"divisibleby", is_divisible},
    entry{"escaped", of_value<is_escaped>},
    entry{"even", is_even},
    entry{"false", of_value<is_exactly_false>},
    entry{"filter", of_value<is_filter>},
    entry{"float", of_value<is_float>},
    entry{"in", of_pair<is_in>},
    entry{"integer", of_value<is_integer>},
    entry{"iterable", of_value<is_iterable>},
    entry{"lower", of_value<is_lower>},
    entry{"mapping", of_value<is_mapping>},
    entry{"none", of_value<is_none>},
    entry{"number", of_value<is_number>},
    entry{"odd", is_odd},
    entry{"sameas", of_pair<is_same>},
    entry{"sequence", of_value<is_sequence>},
    entry{"string", of_value<is_string>},
    entry{"test", of_value<is_test>},
    entry{"true", of_value<is_exactly_true>},
    entry{"undefined", of_value<is_undefined>},
    entry{"upper", of_value<is_upper>},
    entry{"==", of_pair<equals>},
    entry{"eq", of_pair<equals>},
    entry{"equalto", of_pair<equals>},
    entry{"!=", of_pair<differs>},
    entry{"ne", of_pair<differs>},
    entry{">", of_pair<is_greater>},
    entry{"gt", of_pair<is_greater>},
    entry{"greaterthan", of_pair<is_greater>},
    entry{">=", of_pair<is_at_least>},
    entry{"ge", of_pair<is_at_least>},
    entry{"<", of_pair<is_less_than>},
    entry{"lt", of_pair<is_less_than>},
    entry{"lessthan", of_pair<is_less_than>},
    entry{"<=", of_pair<is_at_most>},
    entry{"le", of_pair<is_at_most>},
};

}  // namespace
}  // namespace tests

builtin find_test(std::string_view name) {
  auto const* const found = std::ranges::find(tests::table, name, &tests::entry::first);
  return found == tests::table.end() ? nullptr : found->second;
}

}  // namespace mpt::jinja
