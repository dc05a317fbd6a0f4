// open_trackers: the trackers that a configuration asks for, and the sending of what was left over.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <mpt/config/run/loggers.hpp>
#include <mpt/config/train.hpp>
#include <mpt/log/tracker.hpp>
#include <mpt/trackers/http.hpp>

namespace mpt::trackers {

/// The folder of a run's journals and of the logs of clients.
[[nodiscard]] std::filesystem::path tracker_folder(run_config const& run,
                                                   checkpoint_config const& checkpoint);

/// The configuration with what is blank in it taken from $MLFLOW_TRACKING_URI and
/// $MLFLOW_EXPERIMENT_NAME. Throws before a run begins when something is missing that its trackers
/// need: a Python client, its key, a server's address, or libcurl (`client` is then empty).
[[nodiscard]] loggers_config checked_loggers(loggers_config loggers, http_client const& client);

/// The function that opens the trackers of a run; on rank 0 alone. They show `loggers.settings` as
/// the run's configuration: who reads a file by load_train_config() puts its written_keys() there.
[[nodiscard]] tracker_opener make_tracker_opener(run_config const& run,
                                                 checkpoint_config const& checkpoint,
                                                 loggers_config const& loggers,
                                                 http_client const& client);

/// Sends a journal that a run left, for at most `time`, and deletes it. Clients in Python are run
/// by the interpreter `python`. `say` gets the messages. Returns whether everything was sent.
bool send_journal(std::filesystem::path const& file, std::string const& python,
                  http_client const& client, std::chrono::milliseconds time,
                  std::function<void(std::string const&)> const& say);

}  // namespace mpt::trackers
