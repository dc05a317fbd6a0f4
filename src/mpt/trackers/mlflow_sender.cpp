#include <mpt/trackers/mlflow_sender.hpp>

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include <mpt/net/url.hpp>
#include <mpt/trackers/line_protocol.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {
namespace {

using nlohmann::json;
using remedy = send_failure::remedy;

constexpr std::string_view run_tag = "parallellm_run";  // its value is the run's key

[[nodiscard]] std::string to_string(json const& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// At most `most_bytes` of `text`, without a part of a character of UTF-8 at the end.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  auto end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end));
}

[[nodiscard]] bool matches_any(std::string const& name, json const& patterns) {
  for (auto const& pattern : patterns)
    if (::fnmatch(pattern.get<std::string>().c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

/// ": " and what a server says in its answer: MLflow's message, or a plain text; "" for a page.
[[nodiscard]] std::string reason_in(std::string_view body) {
  constexpr std::size_t longest = 200;
  auto const parsed = json::parse(body, nullptr, false);
  if (parsed.is_object())
    return parsed.contains("message") && parsed["message"].is_string()
               ? ": " + shown_text(shortened(parsed["message"].get<std::string>(), longest))
               : "";
  bool const is_text = body.find_first_of("<{[") == std::string_view::npos;
  while (!body.empty() && std::isspace(static_cast<unsigned char>(body.back())) != 0)
    body.remove_suffix(1);
  return is_text && !body.empty() ? ": " + shown_text(shortened(body, longest)) : "";
}

[[nodiscard]] std::string_view first_line(std::string_view lines) {
  return lines.substr(0, lines.find('\n') + 1);
}

[[nodiscard]] json parsed_line(std::string_view line) {
  auto message = json::parse(line, nullptr, false);
  if (!message.is_object() || !message.contains("type"))
    throw send_failure("the journal holds a line that is none of its protocol", remedy::give_up);
  return message;
}

}  // namespace

std::vector<json> split_list(std::vector<json> items, std::size_t most_items,
                             std::size_t most_bytes) {
  std::vector<json> lists;
  std::size_t bytes = 0;
  for (auto& item : items) {
    auto const size = to_string(item).size() + 1;
    if (lists.empty() || lists.back().size() == most_items || bytes + size > most_bytes) {
      lists.emplace_back(json::array());
      bytes = 0;
    }
    bytes += size;
    lists.back().push_back(std::move(item));
  }
  return lists;
}

std::string mlflow_name(std::string_view name, std::size_t most_bytes) {
  std::string plain;
  for (char const c : name.substr(0, most_bytes)) {
    bool const is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
                            c == ' ' || c == '/';
    plain += is_allowed ? c : '_';
  }
  std::string path;  // without the parts "", "." and "..", which would name another path
  for (std::size_t begin = 0; begin <= plain.size();) {
    auto const end = std::min(plain.find('/', begin), plain.size());
    auto const part = plain.substr(begin, end - begin);
    if (begin > 0) path += '/';
    path += part.empty() || part == "." || part == ".." ? "_" : part;
    begin = end + 1;
  }
  return path;
}

std::string mlflow_names::find(std::string_view name) {
  auto const [known, is_new] = names_.try_emplace(std::string(name));
  if (!is_new) return known->second;
  auto plain = mlflow_name(name, most_bytes_);
  for (int number = 2; !used_.insert(plain).second; ++number) {
    auto const ending = fmt::format("_{}", number);
    plain = mlflow_name(name, most_bytes_ - ending.size()) + ending;
  }
  return known->second = plain;
}

bool is_server_address(std::string_view uri) {
  return (uri.starts_with("http://") || uri.starts_with("https://")) &&
         uri.find('@') == std::string_view::npos;
}

mlflow_sender::mlflow_sender(http_client client, std::filesystem::path state_file,
                             std::chrono::milliseconds longest_wait, mlflow_limits limits)
    : client_(std::move(client)),
      state_file_(std::move(state_file)),
      longest_wait_(longest_wait),
      limits_(limits),
      metric_names_(limits.name_bytes) {
  if (!parallel::files::exists(state_file_)) return;
  auto const state = json::parse(parallel::read_text_file(state_file_, 65536), nullptr, false);
  if (!state.is_object()) return;  // all is sent again, into a new run
  run_id_ = state.value("run_id", "");
  kept_position_ = state.value("sent_bytes", std::size_t{0});
}

void mlflow_sender::keep_position(std::size_t sent_bytes) {
  kept_position_ = sent_bytes;
  try {
    parallel::replace_text_file(
        state_file_, to_string({{"run_id", run_id_}, {"sent_bytes", sent_bytes}}) + "\n");
  } catch (parallel::error const&) {  // lines are then sent again, which MLflow recognises
  }
}

json mlflow_sender::ask(std::string_view method, std::string_view endpoint, json const& body,
                        cancellation const& is_cancelled, bool missing_is_null) const {
  http_answer answer;
  auto const url = parallel::concat(uri_, "/api/2.0/mlflow/", endpoint);
  try {
    answer = client_({std::string(method), url, body.is_null() ? std::string() : to_string(body)},
                     is_cancelled);
  } catch (no_answer const& problem) {
    throw send_failure(parallel::concat(uri_, " does not answer (", problem.what(), ")"),
                       remedy::wait);
  }
  if (missing_is_null && answer.status == 404) return nullptr;
  if (answer.status != 200) refuse(endpoint, answer);
  auto parsed = json::parse(answer.body, nullptr, false);
  if (!parsed.is_object())
    throw send_failure(parallel::concat(uri_,
                                        " answers something else than MLflow's JSON; is it an "
                                        "MLflow server?"),
                       remedy::give_up);
  return parsed;
}

void mlflow_sender::refuse(std::string_view endpoint, http_answer const& answer) const {
  auto const status = answer.status;
  auto const reason = reason_in(answer.body);
  if (status == 408 || status == 429 || status >= 500)
    throw send_failure(parallel::concat(uri_, " answers with status ", status, reason),
                       remedy::wait);
  bool const refuses_host = reason.find("Host header") != std::string::npos;
  bool const refuses_user = (status == 401 || status == 403) && !refuses_host;
  auto const* const advice =
      refuses_host   ? "; start it with the name in this address among its allowed hosts: mlflow "
                       "server --allowed-hosts NAME:PORT, or give an address that it allows"
      : refuses_user ? "; set $MLFLOW_TRACKING_TOKEN, or $MLFLOW_TRACKING_USERNAME and "
                       "$MLFLOW_TRACKING_PASSWORD, of a user who may write there"
      : status >= 300 && status < 400 ? "; give the address that it redirects to"
                                      : "";
  // what a server says of credentials may hold them
  throw send_failure(
      parallel::concat(uri_, " refuses ", refuses_user ? "the credentials" : endpoint, " (status ",
                       status, ")", refuses_user ? "" : reason, advice),
      remedy::give_up);
}

std::string mlflow_sender::experiment_id(std::string const& name,
                                         cancellation const& is_cancelled) const {
  auto const query = "experiments/get-by-name?experiment_name=" + net::percent_encoded(name);
  auto const find = [&]() -> std::optional<std::string> {
    auto const found = ask("GET", query, nullptr, is_cancelled, true);
    if (found.is_null()) return std::nullopt;
    return found.at("experiment").at("experiment_id").get<std::string>();
  };
  if (auto const id = find()) return *id;
  try {
    auto const created = ask("POST", "experiments/create", {{"name", name}}, is_cancelled);
    return created.at("experiment_id").get<std::string>();
  } catch (send_failure const&) {  // another run may have created it meanwhile
    if (auto const id = find()) return *id;
    throw;
  }
}

void mlflow_sender::read_settings(json const& init) {
  settings_ = init.at("settings");
  uri_ = settings_.at("tracking_uri").get<std::string>();
  if (!is_server_address(uri_))
    throw send_failure("the journal names no server's address", remedy::give_up);
  while (uri_.ends_with('/')) uri_.pop_back();
}

void mlflow_sender::adopt(std::string_view first) try {
  read_settings(parsed_line(first));
} catch (json::exception const&) {
  throw send_failure("the journal does not begin with a line of type init", remedy::give_up);
}

std::string mlflow_sender::find_run(std::string const& experiment, json const& init,
                                    cancellation const& is_cancelled) const {
  auto const filter =
      parallel::concat("tags.", run_tag, " = '", init.at("run").get<std::string>(), "'");
  auto const found =
      ask("POST", "runs/search",
          {{"experiment_ids", json::array({experiment})}, {"filter", filter}, {"max_results", 1}},
          is_cancelled);
  if (!found.contains("runs") || found["runs"].empty()) return {};
  return found["runs"].at(0).at("info").at("run_id").get<std::string>();
}

std::string mlflow_sender::create_run(std::string const& experiment, json const& init,
                                      cancellation const& is_cancelled) const {
  auto const run_name = settings_.at("run_name").get<std::string>();
  mlflow_names names(limits_.name_bytes);
  json tags = json::array({{{"key", names.find("composer_run_name")}, {"value", run_name}},
                           {{"key", names.find(run_tag)}, {"value", init.at("run")}}});
  for (auto const& [name, text] : settings_.at("tags").items())
    tags.push_back({{"key", names.find(name)},
                    {"value", shortened(text.get<std::string>(), limits_.tag_bytes)}});
  auto const created = ask("POST", "runs/create",
                           {{"experiment_id", experiment},
                            {"run_name", run_name},
                            {"start_time", init.at("time")},
                            {"tags", tags}},
                           is_cancelled);
  return created.at("run").at("info").at("run_id").get<std::string>();
}

void mlflow_sender::require_run(cancellation const& is_cancelled) {
  auto const run =
      ask("GET", "runs/get?run_id=" + net::percent_encoded(run_id_), nullptr, is_cancelled, true);
  if (!run.is_null() && run.at("run").at("info").value("lifecycle_stage", "active") == "active")
    return;
  auto const gone = std::exchange(run_id_, {});
  keep_position(0);
  throw send_failure(run.is_null() ? parallel::concat(uri_, " has no run ", gone)
                                   : parallel::concat("run ", gone, " was deleted at ", uri_),
                     remedy::restart);
}

void mlflow_sender::begin(json const& init, cancellation const& is_cancelled) {
  read_settings(init);
  if (!run_id_.empty()) require_run(is_cancelled);
  bool is_new = false;
  if (run_id_.empty()) {
    auto const name = settings_.at("experiment_name").get<std::string>();
    auto const experiment = experiment_id(name, is_cancelled);
    run_id_ = find_run(experiment, init, is_cancelled);
    is_new = run_id_.empty();
    if (is_new) run_id_ = create_run(experiment, init, is_cancelled);
    keep_position(0);
  }
  if (!is_new)
    static_cast<void>(
        ask("POST", "runs/update", {{"run_id", run_id_}, {"status", "RUNNING"}}, is_cancelled));
  if (is_new || !init.at("resumed").get<bool>()) log_params(init.at("config"), is_cancelled);
  note(parallel::concat("run ", run_id_, " at ", uri_));
}

void mlflow_sender::log_params(json const& config, cancellation const& is_cancelled) const {
  std::vector<json> params;
  mlflow_names names(limits_.name_bytes);
  for (auto const& [name, text] : config.items())
    if (!matches_any(name, settings_.at("ignore_hyperparameters")))
      params.push_back({{"key", names.find(name)},
                        {"value", shortened(text.get<std::string>(), limits_.param_bytes)}});
  for (auto& list : split_list(std::move(params), limits_.params, limits_.bytes))
    static_cast<void>(ask("POST", "runs/log-batch",
                          {{"run_id", run_id_}, {"params", std::move(list)}}, is_cancelled));
}

void mlflow_sender::add_metrics(json const& line, std::vector<json>& metrics) {
  auto const& renamed = settings_.at("rename_metrics");
  for (auto const& [name, value] : line.at("values").items()) {
    if (matches_any(name, settings_.at("ignore_metrics"))) continue;
    auto const wanted = renamed.contains(name) ? renamed.at(name).get<std::string>() : name;
    metrics.push_back({{"key", metric_names_.find(wanted)},
                       {"value", value},
                       {"timestamp", line.at("time")},
                       {"step", line.at("step")}});
  }
}

void mlflow_sender::end(json const& line, cancellation const& is_cancelled) const {
  auto const& end = line.at("status");
  static_cast<void>(ask("POST", "runs/update",
                        {{"run_id", run_id_},
                         {"status", end == "finished" ? "FINISHED"
                                    : end == "killed" ? "KILLED"
                                                      : "FAILED"},
                         {"end_time", line.at("time")}},
                        is_cancelled));
}

std::size_t mlflow_sender::send(std::string_view lines, cancellation const& is_cancelled) try {
  try {
    return send_lines(lines, is_cancelled);
  } catch (send_failure const& failure) {
    bool const is_begun = !uri_.empty() && !run_id_.empty();
    if (failure.next() == remedy::give_up && is_begun) require_run(is_cancelled);
    throw;
  }
} catch (json::exception const&) {
  throw send_failure("the journal, or an answer of the server, lacks a value", remedy::give_up);
}

std::size_t mlflow_sender::send_lines(std::string_view lines, cancellation const& is_cancelled) {
  std::size_t bytes = 0;
  std::vector<json> metrics;
  for (auto rest = lines; !rest.empty(); rest.remove_prefix(first_line(rest).size())) {
    auto const text = first_line(rest);
    auto const line = parsed_line(text);
    auto const type = line.at("type").get<std::string>();
    if (type != "log" && bytes > 0) break;
    if (type == "init") {
      begin(line, is_cancelled);
      return text.size();
    }
    if (uri_.empty() || run_id_.empty())
      throw send_failure("the journal does not begin with a line of type init", remedy::give_up);
    if (type != "log") {
      if (type == "finish" && text.size() == lines.size()) end(line, is_cancelled);
      return text.size();
    }
    auto const count = metrics.size();
    add_metrics(line, metrics);
    if (bytes > 0 && metrics.size() > limits_.metrics) {
      metrics.resize(count);
      break;
    }
    bytes += text.size();
  }
  for (auto& list : split_list(std::move(metrics), limits_.metrics, limits_.bytes))
    static_cast<void>(ask("POST", "runs/log-batch",
                          {{"run_id", run_id_}, {"metrics", std::move(list)}}, is_cancelled));
  return bytes;
}

void mlflow_sender::complete(cancellation const& /*is_cancelled*/) {
  keep_position(0);  // of the next journal
}

}  // namespace mpt::trackers
