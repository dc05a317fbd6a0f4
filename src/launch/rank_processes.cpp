#include <launch/rank_processes.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpt/console/say.hpp>
#include <parallel/core/error.hpp>

namespace apps {

namespace {

using parallel::descriptor;

/// After a rank has failed, the others are told so and have this time to end by themselves; after a
/// SIGTERM they have the second time.
constexpr auto exit_grace = std::chrono::seconds(3);
constexpr auto term_grace = std::chrono::seconds(10);
/// The time in which the descendants of a rank that a signal has ended must end as well.
constexpr auto descendant_grace = std::chrono::seconds(30);

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int const signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1})
    sigaddset(&set, signal);
  return set;
}

std::pair<descriptor, descriptor> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    parallel::files::failure("launch", "cannot make a pipe for what a rank prints");
  return {descriptor(ends[0]), descriptor(ends[1])};
}

/// Returns whether all was written; errno says why not. What a closed terminal does not take is in
/// the log.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    auto const written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Whether the first of two ranks that failed at the same time tells more about the cause. A rank
/// that was killed is the cause of the other failures; and of ranks that all refused, one may have
/// printed the reason.
bool is_more_informative(rank_end const& first, rank_end const& second) {
  if (WIFSIGNALED(first.status) != WIFSIGNALED(second.status)) return WIFSIGNALED(first.status);
  std::error_code ignored;
  return std::filesystem::file_size(second.log, ignored) == 0 &&
         std::filesystem::file_size(first.log, ignored) != 0;
}

}  // namespace

int rank_end::code() const {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string rank_end::text(std::string const& machine) const {
  if (!WIFSIGNALED(status))
    return fmt::format("rank {} ended with code {} on {}", rank, WEXITSTATUS(status), machine);
  auto const text = fmt::format("rank {} was killed by signal {} ({}) on {}", rank,
                                WTERMSIG(status), ::strsignal(WTERMSIG(status)), machine);
  if (cause.empty()) return text;
  return fmt::format(
      "{}: {}; take a smaller microbatch, more recomputation or fewer ranks a machine", text,
      cause);
}

void block_handled_signals() {
  auto const set = handled_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

rank_processes::rank_processes() {
  // orphaned descendants of a rank become children of this process, which reaps them
  static_cast<void>(::prctl(PR_SET_CHILD_SUBREAPER, 1));
  auto const set = handled_signals();
  ::sigprocmask(SIG_BLOCK, &set, &mask_before_);
  signals_ = descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.get() < 0) parallel::files::failure("launch", "cannot wait for signals");
}

rank_processes::~rank_processes() {
  send(SIGKILL);
  while (!running_.empty()) {
    reap();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  for (auto& stream : streams_)  // a signal ends this process now
    do static_cast<void>(write_all(stream.output, std::exchange(stream.pending, {})));
    while (stream.input.get() >= 0 && stream.read_some());
}

void rank_processes::start(rank_command const& command) {
  descriptor log(
      ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (log.get() < 0) parallel::files::failure(command.log, "cannot be written");
  auto [problem_in, problem_out] = make_pipe();
  std::array<descriptor, 2> ends;  // the rank's standard output and error
  if (command.is_shown) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      auto [input, output] = make_pipe();
      ends[i] = std::move(output);
      streams_.push_back({std::move(input), i == 0 ? STDOUT_FILENO : STDERR_FILENO,
                          descriptor(::fcntl(log.get(), F_DUPFD_CLOEXEC, 0))});
    }
  }
  std::vector<char*> words;
  for (auto const& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  auto const parent = ::getpid();
  auto const id = ::fork();
  parallel::require(id >= 0, "cannot start rank ", command.rank, ": ",
                    std::generic_category().message(errno));
  if (id == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the parent has died already
    auto const set = handled_signals();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    for (int const ignored : {SIGPIPE, SIGXFSZ}) static_cast<void>(std::signal(ignored, SIG_DFL));
    // a terminal's input is for the processes of the terminal's own group
    if (!command.is_shown || ::isatty(STDIN_FILENO) == 1)
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(command.is_shown ? ends[0].get() : log.get(), STDOUT_FILENO);
    ::dup2(command.is_shown ? ends[1].get() : log.get(), STDERR_FILENO);
    for (auto const& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(words.front(), words.data());
    int const problem = errno;
    static_cast<void>(::write(problem_out.get(), &problem, sizeof problem));
    ::_exit(127);
  }
  ::setpgid(id, id);  // parent and child both do this; the first one takes effect
  running_.push_back({id, command.rank, command.log, command.is_shown});
  problem_out = descriptor();
  int problem = 0;
  if (::read(problem_in.get(), &problem, sizeof problem) == sizeof problem)
    parallel::fail("cannot start ", command.words.front(), ": ",
                   std::generic_category().message(problem));
}

std::optional<int> rank_processes::poll_events(std::chrono::milliseconds timeout) {
  std::vector<pollfd> events{{signals_.get(), POLLIN, 0}};
  for (auto const& stream : streams_) {
    if (stream.can_read()) events.push_back({stream.input.get(), POLLIN, 0});
    if (!stream.pending.empty()) events.push_back({stream.output, POLLOUT, 0});
  }
  static_cast<void>(::poll(events.data(), events.size(), static_cast<int>(timeout.count())));
  show();
  std::optional<int> received;
  signalfd_siginfo signal_information{};
  while (::read(signals_.get(), &signal_information, sizeof signal_information) ==
         sizeof signal_information)
    if (signal_information.ssi_signo != SIGCHLD)
      received = static_cast<int>(signal_information.ssi_signo);
  if (!received && has_lost_reader_ && !std::exchange(is_reader_loss_told_, true))
    received = SIGPIPE;
  reap();
  return received;
}

void rank_processes::show() {
  for (auto& stream : streams_) {
    stream.show_pending();
    for (int pieces = 0; pieces < 16 && stream.can_read() && stream.read_some(); ++pieces)
      stream.show_pending();
  }
  for (auto const& stream : streams_) has_lost_reader_ |= stream.has_lost_reader;
  std::erase_if(streams_, [](output_stream const& stream) {
    return stream.input.get() < 0 && stream.pending.empty();
  });
}

bool rank_processes::output_stream::read_some() {
  std::array<char, 65536> text;
  for (pollfd event{input.get(), POLLIN, 0}; ::poll(&event, 1, 0) > 0;) {
    auto const got = ::read(input.get(), text.data(), text.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      input = descriptor();
      return false;
    }
    std::string_view const piece(text.data(), static_cast<std::size_t>(got));
    if (!write_all(log.get(), piece) && !std::exchange(is_log_cut, true))
      mpt::console::say(
          "launch: the log of a rank cannot be written ({}): it lacks what is shown\n",
          std::generic_category().message(errno));
    pending += piece;
    return true;
  }
  return false;
}

void rank_processes::output_stream::show_pending() {
  constexpr std::size_t max_piece = 4096;  // a pipe that is ready takes at least this many bytes
  std::size_t written_size = 0;
  for (pollfd event{output, POLLOUT, 0};
       written_size < pending.size() && ::poll(&event, 1, 0) > 0;) {
    auto const size = ::write(output, pending.data() + written_size,
                              std::min(max_piece, pending.size() - written_size));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      has_lost_reader = size < 0 && errno == EPIPE;
      written_size = pending.size();  // lost, as where a terminal is closed; the log has the text
      break;
    }
    written_size += static_cast<std::size_t>(size);
  }
  pending.erase(0, written_size);
}

void rank_processes::reap() {
  for (siginfo_t ended{};
       ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0;
       ended = {}) {
    auto const group_id = ::getpgid(ended.si_pid);
    int status = 0;
    if (::waitpid(ended.si_pid, &status, 0) != ended.si_pid) continue;
    auto const find_by_id = [&](pid_t id) {
      return std::ranges::find(running_, id, [](running_rank const& rank) { return rank.id; });
    };
    bool const is_rank_itself =
        find_by_id(ended.si_pid) != running_.end();  // its group may be another one by now
    auto const ended_rank = find_by_id(is_rank_itself ? ended.si_pid : group_id);
    if (ended_rank == running_.end()) continue;
    if (is_rank_itself) {
      ended_rank->status = status;
      if (WIFSIGNALED(status) && WTERMSIG(status) == last_sent_)
        ended_rank->signaled_at = parallel::steady_time::clock::now();
    } else if (ended_rank->signaled_at && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      ended_rank->status = status;  // a descendant's code says more than the signal
    }
  }
  for (std::size_t i = 0; i < running_.size();) {
    auto const& rank = running_[i];
    // a rank's descendants are killed with it, except that they get some time after a signal that
    // was sent to all of them and ended the rank before it could wait for them
    bool const has_descendants =
        rank.signaled_at && last_sent_ != SIGKILL && ::kill(-rank.id, 0) == 0 &&
        parallel::steady_time::clock::now() - *rank.signaled_at < descendant_grace;
    if (!rank.status || has_descendants) {
      ++i;
      continue;
    }
    ::kill(-rank.id, SIGKILL);
    note_end(rank);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void rank_processes::note_end(running_rank const& rank) {
  show();
  rank_end end{rank.rank, *rank.status, rank.log, rank.is_shown};
  if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL)
    end.cause = parallel::host::count_memory_kills().since(kills_before_);
  if (!end.is_well() && !end_requested_ && (!failure_ || is_more_informative(end, *failure_)))
    failure_ = end;
}

void rank_processes::send(int signal) {
  if (signal != SIGCONT) last_sent_ = signal;
  for (auto const& rank : running_) ::kill(-rank.id, signal);
}

void rank_processes::request_end() {
  auto const time = parallel::steady_time::clock::now();
  if (!end_requested_) end_requested_ = time;
  int const signal = time - *end_requested_ < exit_grace                ? 0
                     : time - *end_requested_ < exit_grace + term_grace ? SIGTERM
                                                                        : SIGKILL;
  if (signal == end_signal_) return;
  end_signal_ = signal;
  send(signal);
  if (signal == SIGTERM) send(SIGCONT);  // a stopped process must receive the SIGTERM, too
}

std::string tail_of(std::filesystem::path const& file, int lines) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  auto const size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - 16384));
  std::ostringstream content;
  content << in.rdbuf();
  std::string text = content.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  for (int i = 0; i < lines && begin != 0 && begin != std::string::npos; ++i)
    begin = text.rfind('\n', begin - 1);
  return text.substr(begin == std::string::npos ? 0 : begin == 0 ? 0 : begin + 1);
}

std::string last_error_in(std::filesystem::path const& file) {
  constexpr std::string_view mark = "error: ";
  constexpr std::size_t max_size = 500;
  std::istringstream lines(tail_of(file, 1000));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(mark)) out = line.substr(mark.size());
  if (out.size() > max_size) out = out.substr(0, max_size) + "...";
  return out;
}

}  // namespace apps
