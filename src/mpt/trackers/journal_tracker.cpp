#include <mpt/trackers/journal_tracker.hpp>

#include <algorithm>
#include <utility>

#include <mpt/trackers/http.hpp>
#include <mpt/trackers/line_protocol.hpp>

namespace mpt::trackers {
namespace {

constexpr std::size_t most_bytes_at_once = std::size_t{256} << 10;
constexpr std::size_t worth_sending = std::size_t{48} << 10;  // bytes that wait for no more

}  // namespace

journal_tracker::journal_tracker(std::string name, std::filesystem::path const& file,
                                 std::unique_ptr<record_sender> sender, sending_options options,
                                 std::string_view first_line)
    : name_(std::move(name)),
      journal_(file),
      sender_(std::move(sender)),
      options_(std::move(options)),
      sent_(kept_position()) {
  if (!first_line.empty() && !journal_.append(first_line)) {
    if (journal_.size() == 0) journal_.remove();
    parallel::fail<parallel::storage_error>(journal_.path().string(),
                                            ": cannot be written, as on a full disk");
  }
  thread_ = std::thread([this] { run(); });
}

std::size_t journal_tracker::kept_position() {
  auto const position = sender_->kept_position();
  if (position == 0 || position > journal_.size()) return 0;
  try {
    sender_->adopt(journal_.read(0, 1));
    return position;
  } catch (parallel::error const&) {  // all is sent again
    return 0;
  }
}

journal_tracker::~journal_tracker() { end(run_end::failed, options_.failed); }

void journal_tracker::append(std::string const& line) {
  if (!journal_.append(line))
    note_once(parallel::concat("metrics are lost: ", journal_.path().string(),
                               " cannot be written, as on a full disk; the run goes on"));
  changed_.notify_one();
}

void journal_tracker::log(std::int64_t step, nlohmann::ordered_json const& record) {
  append(log_line(step, current_milliseconds(), record));
}

std::vector<std::string> journal_tracker::take_notes() {
  std::scoped_lock const guard(lock_);
  return std::exchange(notes_, {});
}

void journal_tracker::finish() { end(run_end::finished, options_.finish); }

void journal_tracker::fail() { end(run_end::failed, options_.failed); }

void journal_tracker::end(run_end how, std::chrono::milliseconds time) {
  if (is_ended_) return;
  auto const line = finish_line(how, current_milliseconds());
  if (!journal_.append(line)) unwritten_end_ = line + "\n";
  send_rest(time);
}

void journal_tracker::end_killed_run() {
  auto const last = nlohmann::json::parse(journal_.last_line(), nullptr, false);
  if (!last.is_object() || (last.contains("type") && last["type"] == "finish")) return;
  bool const has_time = last.contains("time") && last["time"].is_number_integer();
  append(finish_line(run_end::killed,
                     has_time ? last["time"].get<std::int64_t>() : current_milliseconds()));
}

bool journal_tracker::send_rest(std::chrono::milliseconds time) {
  is_ended_ = true;
  {
    std::unique_lock guard(lock_);
    is_ending_ = true;
    changed_.notify_all();
    changed_.wait_for(guard, time, [&] { return is_complete_ || is_given_up_; });
    is_cancelled_ = true;
    changed_.notify_all();
  }
  thread_.join();
  auto const lost = journal_.lost() - (unwritten_end_.empty() ? 0 : 1);
  if (lost > 0) note_once(parallel::concat(lost, " records were lost in all"));
  if (is_complete_) {
    journal_.remove();
  } else {
    keep_end();
    describe_rest();
  }
  return is_complete_;
}

void journal_tracker::keep_end() {
  if (unwritten_end_.empty()) return;
  auto const line = std::string_view(unwritten_end_).substr(0, unwritten_end_.size() - 1);
  if (!journal_.append(line))
    note_once(parallel::concat("the end of the run is lost: ", journal_.path().string(),
                               " cannot be written, as on a full disk; track will end the run as "
                               "killed"));
}

void journal_tracker::describe_rest() {
  auto const lines = journal_.count_lines(sent_);
  auto const reason = last_failure_.empty() ? "not everything was sent in time" : last_failure_;
  auto const rest = lines < 0 ? "what is left" : parallel::concat(lines, " records");
  auto const file = journal_.path().string();
  note_once(journal_.exists()
                ? parallel::concat(reason, "; ", rest, " wait in ", file,
                                   "; send them: ", options_.command, " ", file)
                : parallel::concat(reason, "; ", rest, " are lost, as ", file, " was deleted"));
}

void journal_tracker::run() {
  std::unique_lock guard(lock_);
  while (wait_for_lines(guard)) {
    guard.unlock();
    send_some();
    auto notes = sender_->take_notes();
    guard.lock();
    for (auto& text : notes) notes_.push_back(parallel::concat(name_, ": ", shown_text(text)));
  }
  changed_.notify_all();
}

bool journal_tracker::wait_for_lines(std::unique_lock<std::mutex>& guard) {
  bool const was_ending = is_ending_;
  if (pause_.count() > 0)
    changed_.wait_for(guard, was_ending ? options_.first_pause : pause_,
                      [&] { return is_cancelled_ || is_ending_ != was_ending; });
  while (!is_cancelled_ && !is_complete_ && !is_given_up_) {
    auto const waiting = journal_.size() - sent_;
    auto const next = last_send_ + sender_->longest_wait();
    if (is_ending_ || waiting >= worth_sending || (waiting > 0 && clock::now() >= next))
      return true;
    if (waiting > 0)
      changed_.wait_until(guard, next);
    else
      changed_.wait_for(guard, std::chrono::milliseconds(200));  // a line's notice may be missed
  }
  return false;
}

void journal_tracker::send_some() {
  auto const is_cancelled = [this] { return is_cancelled_.load(); };
  try {
    if (auto const lines = journal_.read(sent_, most_bytes_at_once); !lines.empty()) {
      sent_ += sender_->send(lines, is_cancelled);
      last_send_ = clock::now();
      sender_->keep_position(sent_);
    } else {
      if (!unwritten_end_.empty()) static_cast<void>(sender_->send(unwritten_end_, is_cancelled));
      sender_->complete(is_cancelled);
      std::scoped_lock const guard(lock_);
      is_complete_ = true;
    }
    pause_ = {};
    last_failure_.clear();
    is_outage_told_ = false;
  } catch (send_failure const& failure) {
    handle(failure);
  } catch (parallel::error const& problem) {
    handle({problem.what(), send_failure::remedy::give_up});
  }
}

void journal_tracker::handle(send_failure const& failure) {
  if (is_cancelled_ && !last_failure_.empty()) return;
  last_failure_ = failure.what();
  auto next = failure.next();
  if (next == send_failure::remedy::restart && restarts_++ == options_.restarts)
    next = send_failure::remedy::give_up;
  pause_ = std::clamp(2 * pause_, options_.first_pause, options_.last_pause);
  if (next == send_failure::remedy::give_up) {
    std::scoped_lock const guard(lock_);
    is_given_up_ = true;
  }
  if (next != send_failure::remedy::wait)  // the client's work is lost
    sent_ = std::min(
        sent_, failure.next() == send_failure::remedy::restart ? 0 : sender_->kept_position());
  if (next == send_failure::remedy::restart) sender_->restart();
  if (is_cancelled_) return;  // the end of the run tells it
  bool const is_outage = next == send_failure::remedy::wait;
  if (is_outage && std::exchange(is_outage_told_, true)) return;
  note_once(parallel::concat(
      failure.what(),
      next == send_failure::remedy::give_up ? "; the run goes on, and its metrics are kept in "
      : next == send_failure::remedy::wait  ? "; metrics are sent later, and until then kept in "
                                            : "; it is started again, with the metrics kept in ",
      journal_.path().string()));
}

void journal_tracker::note_once(std::string const& text) {
  auto const line = parallel::concat(name_, ": ", shown_text(text));
  std::scoped_lock const guard(lock_);
  if (std::ranges::find(known_notes_, line) != known_notes_.end()) return;
  known_notes_.push_back(line);
  notes_.push_back(line);
}

}  // namespace mpt::trackers
