#include <mpt/trackers/line_protocol.hpp>

#include <chrono>
#include <cmath>

#include <mpt/yaml/scalar.hpp>

namespace mpt::trackers {
namespace {

using nlohmann::json;

/// Invalid UTF-8 is replaced, so that any text can be a line.
[[nodiscard]] std::string line_of(json const& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

[[nodiscard]] json value_of(written_key const& setting) {
  if (setting.items) {
    json list = json::array();
    for (auto const& item : *setting.items) list.push_back(value_of(item));
    return list;
  }
  if (setting.is_string) return setting.text;
  if (setting.text == "null") return nullptr;
  if (auto const integer = parse_integer(setting.text)) return *integer;
  if (auto const number = parse_number(setting.text)) return *number;
  if (auto const flag = parse_bool(setting.text)) return *flag;
  return setting.text;
}

/// A map without keys says nothing.
[[nodiscard]] bool is_empty_map(written_key const& setting) {
  return !setting.is_string && setting.text == "{}";
}

[[nodiscard]] json values_of(std::vector<written_key> const& settings) {
  json values = json::object();
  for (auto const& setting : settings)
    if (!is_empty_map(setting)) values[setting.name] = value_of(setting);
  return values;
}

[[nodiscard]] json values_of(std::vector<std::pair<std::string, std::string>> const& pairs) {
  json values = json::object();
  for (auto const& [name, text] : pairs) values[name] = text;
  return values;
}

}  // namespace

std::string init_line(python_tracker_config const& tracker, run_identity const& run,
                      std::vector<written_key> const& settings, std::string_view kind) {
  json client = json::object();
  auto const add = [&](char const* name, std::string const& text) {
    if (!text.empty()) client[name] = text;
  };
  add("project", tracker.project);
  add("entity", tracker.entity);
  add("group", tracker.group);
  add("name", tracker.name);
  add("mode", tracker.mode);
  add("dir", tracker.dir);
  add("job_type", tracker.job_type);
  add("notes", tracker.notes);
  add("resume", tracker.resume);
  if (!tracker.tags.empty()) client["tags"] = tracker.tags;
  return line_of({{"type", kind},
                  {"protocol", protocol_version},
                  {"client", tracker.module},
                  {"run", run.key},
                  {"resumed", run.is_resumed},
                  {"settings", client},
                  {"config", values_of(settings)}});
}

std::string init_line(mlflow_config const& tracker, run_identity const& run,
                      std::vector<written_key> const& settings, std::int64_t milliseconds) {
  auto tags = values_of(tracker.tags);
  if (!tracker.run_group.empty()) tags["run_group"] = tracker.run_group;
  json config = json::object();
  for (auto const& setting : settings)
    if (!is_empty_map(setting)) config[setting.name] = setting.text;
  return line_of({{"type", "init"},
                  {"protocol", protocol_version},
                  {"client", "mlflow"},
                  {"run", run.key},
                  {"resumed", run.is_resumed},
                  {"time", milliseconds},
                  {"settings",
                   {{"tracking_uri", tracker.tracking_uri},
                    {"experiment_name", tracker.experiment_name},
                    {"run_name", tracker.run_name},
                    {"tags", tags},
                    {"ignore_metrics", tracker.ignore_metrics},
                    {"ignore_hyperparameters", tracker.ignore_hyperparameters},
                    {"rename_metrics", values_of(tracker.rename_metrics)}}},
                  {"config", config}});
}

std::string log_line(std::int64_t step, std::int64_t milliseconds,
                     nlohmann::ordered_json const& record) {
  json values = json::object();
  json texts = json::object();
  for (auto const& [name, value] : record.items()) {
    if (value.is_number_float())
      values[name] = to_json(value.get<double>());
    else if (value.is_number())
      values[name] = value;
    else if (value.is_string())
      texts[name] = value;
  }
  return line_of({{"type", "log"},
                  {"step", step},
                  {"time", milliseconds},
                  {"values", values},
                  {"texts", texts}});
}

std::string finish_line(run_end end, std::int64_t milliseconds) {
  auto const* const status = end == run_end::finished ? "finished"
                             : end == run_end::failed ? "failed"
                                                      : "killed";
  return line_of({{"type", "finish"}, {"status", status}, {"time", milliseconds}});
}

json to_json(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "NaN";
  return number > 0 ? "Infinity" : "-Infinity";
}

std::int64_t current_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace mpt::trackers
