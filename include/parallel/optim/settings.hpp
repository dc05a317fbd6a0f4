// settings: the numbers that an optimizer was constructed with, by name, as far as it exposes them:
// ranks that train together compare them.
#pragma once

#include <cmath>
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

/// Calls f(name, number) for the settings that `o` exposes, or else for its learning_rate where it
/// has such a number.
template <class O, class F>
void for_each_setting(O const& o, F const& f) {
  if constexpr (shows_settings<O>) {
    o.visit_settings(f);
  } else if constexpr (requires {
                         { o.learning_rate } -> std::convertible_to<double>;
                       }) {
    f("learning_rate", static_cast<double>(o.learning_rate));
  }
}

/// "learning_rate 0.001", "beta1 0.9": these settings as texts.
template <class O>
[[nodiscard]] std::vector<std::string> settings_of(O const& o) {
  std::vector<std::string> out;
  for_each_setting(o, [&](std::string_view name, auto const& value) {
    out.push_back(concat(name, ' ', value));
  });
  return out;
}

/// Throws unless these settings are finite numbers: learning_rate, weight_decay and eps 0 or more,
/// beta1, beta2 and momentum from 0 to below 1. Otherwise the parameters would be lost in silence.
template <class O>
void require_settings(O const& o) {
  for_each_setting(o, [](std::string_view name, auto const& value) {
    auto const number = static_cast<double>(value);
    bool const is_share = name == "beta1" || name == "beta2" || name == "momentum";
    bool const is_amount = name == "learning_rate" || name == "weight_decay" || name == "eps";
    bool const fits = std::isfinite(number) && (!(is_share || is_amount) || number >= 0) &&
                      (!is_share || number < 1);
    require(fits, "the optimizer's ", name, " is ", value, "; it must be a finite number",
            is_share    ? " from 0 to below 1"
            : is_amount ? ", 0 or more"
                        : "");
  });
}

}  // namespace parallel
