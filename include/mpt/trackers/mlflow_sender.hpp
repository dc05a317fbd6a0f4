// mlflow_sender: sends a journal's lines to an MLflow tracking server by its REST interface
// (mlflow.org/docs/latest/rest-api.html), in requests of the size that it allows.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/trackers/http.hpp>
#include <mpt/trackers/record_sender.hpp>

namespace mpt::trackers {

/// The limits of MLflow's runs/log-batch and of the texts in it.
struct mlflow_limits {
  std::size_t metrics = 1000;      ///< of a request
  std::size_t params = 100;        ///< of a request
  std::size_t bytes = 900'000;     ///< of a list in a request, which may have 1 MB
  std::size_t name_bytes = 250;    ///< of a metric, parameter or tag
  std::size_t param_bytes = 6000;  ///< of a parameter's value
  std::size_t tag_bytes = 5000;    ///< of a tag's value
};

/// Lists of at most `most_items` of `items` in their order, each of at most `most_bytes` as JSON (a
/// longer item is alone).
[[nodiscard]] std::vector<nlohmann::json> split_list(std::vector<nlohmann::json> items,
                                                     std::size_t most_items,
                                                     std::size_t most_bytes);

/// A name that MLflow takes: letters, digits, "_-. /", a plain relative path. Other characters
/// become
/// '_'.
[[nodiscard]] std::string mlflow_name(std::string_view name, std::size_t most_bytes = 250);

/// Names that MLflow takes, a different one for each name: where two would become one name, the
/// later one ends with "_2". Its server refuses a list in which a parameter comes twice.
class mlflow_names {
 public:
  explicit mlflow_names(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  [[nodiscard]] std::string find(std::string_view name);

 private:
  std::size_t most_bytes_;
  std::map<std::string, std::string, std::less<>> names_;
  std::set<std::string> used_;
};

/// Whether `uri` is the address of an HTTP server, without a name or password in it.
[[nodiscard]] bool is_server_address(std::string_view uri);

class mlflow_sender : public record_sender {
 public:
  /// `state_file` holds the server's run id and how far the journal has been sent, for a later
  /// program.
  mlflow_sender(http_client client, std::filesystem::path state_file,
                std::chrono::milliseconds longest_wait, mlflow_limits limits = {});

  [[nodiscard]] std::size_t send(std::string_view lines, cancellation const& is_cancelled) override;
  void adopt(std::string_view first_line) override;
  void complete(cancellation const& is_cancelled) override;
  [[nodiscard]] std::chrono::milliseconds longest_wait() const override { return longest_wait_; }
  void keep_position(std::size_t sent_bytes) override;
  [[nodiscard]] std::size_t kept_position() const override { return kept_position_; }

 private:
  /// The answer to a request of `method` for `endpoint`, as "runs/create"; null where
  /// `missing_is_null` and the server has no such thing. Throws send_failure.
  [[nodiscard]] nlohmann::json ask(std::string_view method, std::string_view endpoint,
                                   nlohmann::json const& body, cancellation const& is_cancelled,
                                   bool missing_is_null = false) const;
  [[noreturn]] void refuse(std::string_view endpoint, http_answer const& answer) const;
  void read_settings(nlohmann::json const& init);
  void begin(nlohmann::json const& init, cancellation const& is_cancelled);
  /// Sends the lines from the first on, as send() does.
  [[nodiscard]] std::size_t send_lines(std::string_view lines, cancellation const& is_cancelled);
  /// The id of the server's run with the key of `init`, or "". There is one if the answer to an
  /// earlier create_run() was lost.
  [[nodiscard]] std::string find_run(std::string const& experiment, nlohmann::json const& init,
                                     cancellation const& is_cancelled) const;
  [[nodiscard]] std::string create_run(std::string const& experiment, nlohmann::json const& init,
                                       cancellation const& is_cancelled) const;
  /// Throws a send_failure that begins another run when the server has deleted this one.
  void require_run(cancellation const& is_cancelled);
  [[nodiscard]] std::string experiment_id(std::string const& name,
                                          cancellation const& is_cancelled) const;
  void log_params(nlohmann::json const& config, cancellation const& is_cancelled) const;
  void add_metrics(nlohmann::json const& line, std::vector<nlohmann::json>& metrics);
  void end(nlohmann::json const& line, cancellation const& is_cancelled) const;

  http_client client_;
  std::filesystem::path state_file_;
  std::chrono::milliseconds longest_wait_;
  mlflow_limits limits_;
  mlflow_names metric_names_;
  std::string uri_;
  std::string run_id_;
  nlohmann::json settings_;
  std::size_t kept_position_ = 0;
};

}  // namespace mpt::trackers
