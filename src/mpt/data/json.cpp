#include <mpt/data/json.hpp>

namespace mpt::data {
namespace {

void append_python_json(std::string& out, nlohmann::json const& value) {
  char const* separator = "";
  if (value.is_object()) {
    out += '{';
    for (auto const& [key, member] : value.items()) {
      out.append(separator).append(nlohmann::json(key).dump(-1, ' ', true)).append(": ");
      append_python_json(out, member);
      separator = ", ";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (auto const& element : value) {
      out += separator;
      append_python_json(out, element);
      separator = ", ";
    }
    out += ']';
  } else {
    out += value.dump(-1, ' ', true);
  }
}

}  // namespace

std::string python_json(nlohmann::json const& value) {
  std::string out;
  append_python_json(out, value);
  return out;
}

}  // namespace mpt::data

namespace mpt::data::detail {

nlohmann::json const& member(nlohmann::json const& object, char const* key,
                             std::string_view location) {
  parallel::require(object.is_object(), location, ": expected a JSON object");
  auto const found = object.find(key);
  parallel::require(found != object.end(), location, ": lacks \"", key, "\"");
  return *found;
}

std::string string_member(nlohmann::json const& object, char const* key,
                          std::string_view location) {
  auto const& value = member(object, key, location);
  parallel::require(value.is_string(), location, ": \"", key, "\" is not a string");
  return value.get<std::string>();
}

std::uint64_t count_member(nlohmann::json const& object, char const* key,
                           std::string_view location) {
  auto const& value = member(object, key, location);
  parallel::require(value.is_number_unsigned(), location, ": \"", key,
                    "\" is not a non-negative integer");
  return value.get<std::uint64_t>();
}

}  // namespace mpt::data::detail
