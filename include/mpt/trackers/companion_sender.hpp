// companion_sender: sends a journal's lines to a Python client, in a process that runs
// src/companion/tracker.py.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/trackers/companion_process.hpp>
#include <mpt/trackers/record_sender.hpp>

namespace mpt::trackers {

/// The text of src/companion/tracker.py.
extern std::string_view const companion_script;

/// The words that start the script by an interpreter.
[[nodiscard]] std::vector<std::string> companion_words(std::string const& python);

class companion_sender : public record_sender {
 public:
  /// `words` starts the process, whose standard error goes to `log`.
  companion_sender(std::vector<std::string> words, std::filesystem::path log);
  ~companion_sender() override;

  [[nodiscard]] std::size_t send(std::string_view lines, cancellation const& is_cancelled) override;
  void complete(cancellation const& is_cancelled) override;
  void restart() override;
  [[nodiscard]] std::chrono::milliseconds longest_wait() const override {
    return std::chrono::milliseconds(500);
  }

 private:
  /// Handles the answers that have come. Throws send_failure when the client has failed.
  void read_answers(cancellation const& is_cancelled, std::chrono::milliseconds time);
  void handle(std::string const& line);
  [[noreturn]] void fail_ended();

  std::vector<std::string> words_;
  std::filesystem::path log_;
  std::unique_ptr<companion_process> process_;
  bool is_finished_ = false;
  std::string folder_;  // of an offline run
};

}  // namespace mpt::trackers
