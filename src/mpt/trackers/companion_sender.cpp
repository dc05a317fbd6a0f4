#include <mpt/trackers/companion_sender.hpp>

#include <utility>

#include <mpt/trackers/http.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {

using remedy = send_failure::remedy;

std::vector<std::string> companion_words(std::string const& python) {
  return {python, "-c", std::string(companion_script)};
}

companion_sender::companion_sender(std::vector<std::string> words, std::filesystem::path log)
    : words_(std::move(words)), log_(std::move(log)) {}

companion_sender::~companion_sender() {
  if (process_ && !is_finished_) process_->end();
}

void companion_sender::restart() {
  if (process_) process_->end();
  process_.reset();
  is_finished_ = false;
}

std::size_t companion_sender::send(std::string_view lines, cancellation const& is_cancelled) {
  if (!process_) {
    try {
      process_ = std::make_unique<companion_process>(words_, log_);
    } catch (parallel::error const& problem) {
      throw send_failure(problem.what(), remedy::give_up);
    }
  }
  bool const is_written = process_->write(lines, is_cancelled);
  read_answers(is_cancelled, std::chrono::milliseconds(0));
  if (is_written) return lines.size();
  if (is_cancelled()) throw send_failure("its client took too long", remedy::restart);
  read_answers(is_cancelled, std::chrono::milliseconds(1000));
  fail_ended();
}

void companion_sender::complete(cancellation const& is_cancelled) {
  if (!process_) return;
  process_->close_input();
  while (!is_finished_ && !is_cancelled()) {
    auto const line = process_->read_line(std::chrono::milliseconds(1000), is_cancelled);
    if (line)
      handle(*line);
    else if (!process_->is_running())
      fail_ended();
  }
  if (!is_finished_) throw send_failure("its client took too long to finish", remedy::restart);
  if (!folder_.empty() && !parallel::files::exists(folder_))
    throw send_failure(parallel::concat("its offline folder ", folder_, " was deleted"),
                       remedy::restart);
}

void companion_sender::read_answers(cancellation const& is_cancelled,
                                    std::chrono::milliseconds time) {
  while (auto const line = process_->read_line(time, is_cancelled)) handle(*line);
}

void companion_sender::handle(std::string const& line) {
  auto const answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object()) return;
  auto const text = [&](char const* name) {
    auto const found = answer.find(name);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  auto const type = text("type");
  if (type == "ready") {
    folder_ = text("folder");
    auto const place = folder_.empty() ? text("url") : folder_ + "; send it: wandb sync " + folder_;
    note(parallel::concat("run ", text("run"), place.empty() ? "" : " in ", place));
  }
  if (type == "finished") is_finished_ = true;
  if (type == "refused") throw send_failure(text("text"), remedy::give_up);
  if (type == "failed")
    throw send_failure(
        parallel::concat("its client failed (", text("text"), "; its log is ", log_.string(), ")"),
        remedy::restart);
}

void companion_sender::fail_ended() {
  throw send_failure(parallel::concat("its client's process ", process_->end()), remedy::restart);
}

}  // namespace mpt::trackers
