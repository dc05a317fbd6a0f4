// settings: the numbers an optimizer was made with, by name, as far as it shows them: ranks that
// train together compare them.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <parallel/core/error.hpp>

namespace parallel {

namespace detail {

struct ignored_setting {
  template <class Value>
  void operator()(std::string_view /*name*/, Value const& /*value*/) const {}
};

struct only_double {
  template <std::same_as<double> T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class O>
constexpr std::size_t doubles_in = sizeof(O) / sizeof(double);

/// Whether O consists of doubles, without a gap.
template <class O>
constexpr bool consists_of_doubles = [] {
  if constexpr (std::is_aggregate_v<O> && std::is_trivially_copyable_v<O> &&
                sizeof(O) % sizeof(double) == 0)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return requires { O{(static_cast<void>(I), only_double{})...}; };
    }
  (std::make_index_sequence<doubles_in<O>>());
  else return false;
}();

}  // namespace detail

/// O has visit_settings(f), which calls f(name, number) for each of its settings.
template <class O>
concept shows_settings = requires(O const& o) {
  o.visit_settings(detail::ignored_setting{});
};

/// "learning_rate 0.001, beta1 0.9": what `o` shows, or, of a struct of doubles alone, those one
/// after another, or its learning_rate; else nothing.
template <class O>
[[nodiscard]] std::string settings_of(O const& o) {
  std::string out;
  auto const add = [&](std::string_view name, auto const& value) {
    out += concat(out.empty() ? "" : ", ", name, name.empty() ? "" : " ", value);
  };
  if constexpr (shows_settings<O>) {
    o.visit_settings(add);
  } else if constexpr (detail::consists_of_doubles<O>) {
    for (double const value : std::bit_cast<std::array<double, detail::doubles_in<O>>>(o))
      add("", value);
  } else if constexpr (requires { concat(o.learning_rate); }) {
    add("learning_rate", o.learning_rate);
  }
  return out;
}

}  // namespace parallel
