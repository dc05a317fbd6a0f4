// Values of JSON objects from files, which may lack them or hold another type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mpt::report::detail {

/// The number at `key`, if `object` is an object that has one.
template <class Json>
[[nodiscard]] std::optional<double> find_number(Json const& object, char const* key) {
  if (!object.is_object()) return std::nullopt;
  auto const found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->template get<double>();
}

/// The same, and 0 if there is none.
template <class Json>
[[nodiscard]] double number_at(Json const& object, char const* key) {
  return find_number(object, key).value_or(0);
}

/// The seconds at `key`, from 0 to some thousand years, and 0 if there are none.
template <class Json>
[[nodiscard]] double seconds_at(Json const& object, char const* key) {
  constexpr double longest = 1e11;
  double const number = number_at(object, key);
  return number > 0 ? (number < longest ? number : longest) : 0;
}

/// The whole number from 0 to 2^53 at `key`; what is outside is the nearest of these, and 0 if
/// there is none.
template <class Json>
[[nodiscard]] std::int64_t count_at(Json const& object, char const* key) {
  constexpr double largest = 9'007'199'254'740'992.0;
  double const number = number_at(object, key);
  return number > 0 ? static_cast<std::int64_t>(number < largest ? number : largest) : 0;
}

/// The text at `key`; "" if there is none.
template <class Json>
[[nodiscard]] std::string text_at(Json const& object, char const* key) {
  if (!object.is_object()) return "";
  auto const found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : "";
}

}  // namespace mpt::report::detail
