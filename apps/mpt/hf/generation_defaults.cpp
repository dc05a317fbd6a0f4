#include <mpt/hf/generation_defaults.hpp>

#include <string>

#include <nlohmann/json.hpp>

#include <mpt/yaml/node.hpp>
#include <mpt/yaml/small_file.hpp>
#include <parallel/checkpoint/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

generation_defaults read_generation_defaults(std::filesystem::path const& folder) {
  generation_defaults out;
  auto const file = folder / "generation_config.json";
  if (!parallel::files::exists(file)) return out;
  auto const json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
  parallel::require(json.is_object(), file.string(), ": must be a JSON object");
  auto const number = [&](char const* key) -> std::optional<double> {
    auto const found = json.find(key);
    if (found == json.end() || found->is_null()) return std::nullopt;
    parallel::require(found->is_number(), file.string(), ": ", key, ": expected a number, found ",
                      printable(found->dump()));
    return found->get<double>();
  };
  out.repetition_penalty = number("repetition_penalty");
  if (!json.value("do_sample", nlohmann::json(false)).is_boolean() ||
      !json.value("do_sample", nlohmann::json(false)).get<bool>())
    return out;
  constexpr std::int64_t default_top_k = 50;
  out.temperature = number("temperature").value_or(1.0);
  out.top_p = number("top_p");
  out.top_k = default_top_k;
  if (auto const found = json.find("top_k"); found != json.end() && !found->is_null()) {
    parallel::require(found->is_number_integer() && *found >= 0 && *found <= (1 << 30),
                      file.string(), ": top_k: expected a whole number from 0 on, found ",
                      printable(found->dump()));
    out.top_k = found->get<std::int64_t>();
  }
  return out;
}

}  // namespace mpt
