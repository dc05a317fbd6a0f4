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
