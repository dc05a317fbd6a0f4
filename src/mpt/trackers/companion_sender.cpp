#include <mpt/trackers/companion_sender.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mpt/trackers/http.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {

using remedy = send_failure::remedy;

std::vector<std::string> companion_words(std::string const& python, bool is_of_run) {
  std::vector<std::string> words{python, "-c", std::string(companion_script)};
  if (is_of_run) words.push_back(std::to_string(::getpid()));
  return words;
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

namespace {

constexpr std::chrono::milliseconds patience{100};  // between looks at the cancellation
constexpr std::size_t longest_line = std::size_t{1} << 20;

[[nodiscard]] std::array<parallel::descriptor, 2> make_channel() {
  std::array<int, 2> ends{};
  parallel::require(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
      "there is no channel to another program: ", std::generic_category().message(errno));
  return {parallel::descriptor(ends[0]), parallel::descriptor(ends[1])};
}

/// Attributes and file actions of a program's start.
class start_settings {
 public:
  start_settings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  start_settings(start_settings&&) = delete;
  ~start_settings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  ::posix_spawn_file_actions_t actions{};
  ::posix_spawnattr_t attributes{};
};

}  // namespace

companion_process::companion_process(std::vector<std::string> const& words,
                                     std::filesystem::path const& log) {
  auto [our_input, its_input] = make_channel();
  auto [our_output, its_output] = make_channel();
  parallel::descriptor const log_file(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (log_file.get() < 0) parallel::files::failure(log, "cannot be written");
  start_settings start;
  ::posix_spawn_file_actions_adddup2(&start.actions, its_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&start.actions, its_output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&start.actions, log_file.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&start.actions, STDERR_FILENO + 1);
  ::sigset_t no_signals, all_signals;
  ::sigemptyset(&no_signals);
  ::sigfillset(&all_signals);
  ::posix_spawnattr_setsigmask(&start.attributes, &no_signals);
  ::posix_spawnattr_setsigdefault(&start.attributes, &all_signals);
  ::posix_spawnattr_setpgroup(&start.attributes, 0);
  ::posix_spawnattr_setflags(
      &start.attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  std::vector<char*> arguments;
  for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int const problem = ::posix_spawnp(&process_, words.front().c_str(), &start.actions,
                                     &start.attributes, arguments.data(), environ);
  if (problem != 0)
    parallel::fail("cannot start ", words.front(), ": ", std::generic_category().message(problem));
  input_ = std::move(our_input);
  output_ = std::move(our_output);
}

companion_process::~companion_process() {
  static_cast<void>(is_running());  // no zombie stays
}

bool companion_process::write(std::string_view text, cancellation const& is_cancelled) {
  while (!text.empty()) {
    if (is_cancelled() || input_.get() < 0) return false;
    ::pollfd event{input_.get(), POLLOUT, 0};
    if (::poll(&event, 1, static_cast<int>(patience.count())) <= 0) continue;
    auto const count = ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void companion_process::close_input() { input_ = parallel::descriptor(); }

std::optional<std::string> companion_process::read_line(std::chrono::milliseconds time,
                                                        cancellation const& is_cancelled) {
  auto const deadline = std::chrono::steady_clock::now() + time;
  for (;;) {
    if (auto const end = received_.find('\n'); end != std::string::npos) {
      auto line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    auto const left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (is_cancelled() || left.count() < 0 || received_.size() > longest_line) return std::nullopt;
    ::pollfd event{output_.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(std::min(left, patience).count())) <= 0) {
      if (left.count() == 0) return std::nullopt;
      continue;
    }
    std::array<char, 4096> block;
    auto const count = ::recv(output_.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return std::nullopt;
    received_.append(block.data(), static_cast<std::size_t>(count));
  }
}

bool companion_process::is_running() {
  int status = 0;
  if (!ending_.empty() || ::waitpid(process_, &status, WNOHANG) == 0) return ending_.empty();
  describe(status);
  return false;
}

std::string companion_process::end() {
  // one that has closed its pipes is about to end by itself
  for (int tries = 0; tries < 100 && is_running(); ++tries) ::poll(nullptr, 0, 10);
  if (!ending_.empty()) return ending_;
  ::kill(-process_, SIGKILL);
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  describe(status);
  return ending_;
}

void companion_process::describe(int status) {
  ending_ = WIFSIGNALED(status) ? parallel::concat("was killed by signal ", WTERMSIG(status), " (",
                                                   ::strsignal(WTERMSIG(status)), ")")
                                : parallel::concat("ended with status ", WEXITSTATUS(status));
}

}  // namespace mpt::trackers
