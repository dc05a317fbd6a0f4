// settings: the numbers that an optimizer was constructed with, by name, as far as it exposes them:
// ranks that train together compare them.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/error.hpp>

namespace parallel {

namespace detail {

struct ignored_setting {
  template <class Value>
  void operator()(std::string_view /*name*/, Value const& /*value*/) const {}
};

}  // namespace detail

/// O has visit_settings(f), which calls f(name, number) for each of its settings.
template <class O>
concept shows_settings = requires(O const& o) {
  o.visit_settings(detail::ignored_setting{});
};

/// "learning_rate 0.001", "beta1 0.9": the settings that `o` exposes, or else its learning_rate
/// where it has such a number.
template <class O>
[[nodiscard]] std::vector<std::string> settings_of(O const& o) {
  std::vector<std::string> out;
  auto const add = [&](std::string_view name, auto const& value) {
    out.push_back(concat(name, ' ', value));
  };
  if constexpr (shows_settings<O>) {
    o.visit_settings(add);
  } else if constexpr (requires {
                         { o.learning_rate } -> std::convertible_to<double>;
                       }) {
    add("learning_rate", static_cast<double>(o.learning_rate));
  }
  return out;
}

}  // namespace parallel
