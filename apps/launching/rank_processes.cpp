#include "launching/rank_processes.hpp"

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
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <mpt/console/say.hpp>
#include <parallel/core/error.hpp>

namespace apps {

namespace {

using parallel::descriptor;

/// How long ranks have to end by themselves when another has failed, which they hear of, and how
/// long after a SIGTERM.
constexpr auto by_themselves = std::chrono::seconds(3);
constexpr auto after_term = std::chrono::seconds(10);
/// What a rank that a signal has ended leaves running, to end as well.
constexpr auto left_running = std::chrono::seconds(30);

sigset_t held_back() {
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
bool write_all(int to, std::string_view text) {
  while (!text.empty()) {
    auto const written = ::write(to, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Of several that end at once, one that was killed is the cause and the others its echo; of what
/// all refuse one may have printed why.
bool says_more(rank_end const& one, rank_end const& other) {
  if (WIFSIGNALED(one.status) != WIFSIGNALED(other.status)) return WIFSIGNALED(one.status);
  std::error_code ignored;
  return std::filesystem::file_size(other.log, ignored) == 0 &&
         std::filesystem::file_size(one.log, ignored) != 0;
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
  if (why.empty()) return text;
  return fmt::format(
      "{}: {}; take a smaller microbatch, more recomputation or fewer ranks a machine", text, why);
}

void hold_signals_back() {
  auto const set = held_back();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

rank_processes::rank_processes() {
  // what a rank leaves behind when it ends is seen to its end here
  static_cast<void>(::prctl(PR_SET_CHILD_SUBREAPER, 1));
  auto const set = held_back();
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
  for (auto& one : streams_)  // a signal ends that now
    do static_cast<void>(write_all(one.to, std::exchange(one.waiting, {})));
    while (one.from.get() >= 0 && one.read_some());
}

void rank_processes::start(rank_command const& command) {
  descriptor log(
      ::open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (log.get() < 0) parallel::files::failure(command.log, "cannot be written");
  auto [problem_in, problem_out] = make_pipe();
  std::array<descriptor, 2> ends;  // of the rank's standard output and error
  if (command.is_shown) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      auto [from, to] = make_pipe();
      ends[i] = std::move(to);
      streams_.push_back({std::move(from), i == 0 ? STDOUT_FILENO : STDERR_FILENO,
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
    if (::getppid() != parent) ::_exit(1);  // it died before
    auto const set = held_back();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    for (int const ignored : {SIGPIPE, SIGXFSZ}) static_cast<void>(std::signal(ignored, SIG_DFL));
    // a terminal's input is for the processes of its group
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
  ::setpgid(id, id);  // whoever of the two comes first
  running_.push_back({id, command.rank, command.log, command.is_shown});
  problem_out = descriptor();
  int problem = 0;
  if (::read(problem_in.get(), &problem, sizeof problem) == sizeof problem)
    parallel::fail("cannot start ", command.words.front(), ": ",
                   std::generic_category().message(problem));
}

std::optional<int> rank_processes::look(std::chrono::milliseconds most) {
  std::vector<pollfd> events{{signals_.get(), POLLIN, 0}};
  for (auto const& one : streams_) {
    if (one.takes_more()) events.push_back({one.from.get(), POLLIN, 0});
    if (!one.waiting.empty()) events.push_back({one.to, POLLOUT, 0});
  }
  static_cast<void>(::poll(events.data(), events.size(), static_cast<int>(most.count())));
  show();
  std::optional<int> received;
  signalfd_siginfo one{};
  while (::read(signals_.get(), &one, sizeof one) == sizeof one)
    if (one.ssi_signo != SIGCHLD) received = static_cast<int>(one.ssi_signo);
  reap();
  return received;
}

void rank_processes::show() {
  for (auto& one : streams_) {
    one.pass_on();
    for (int pieces = 0; pieces < 16 && one.takes_more() && one.read_some(); ++pieces)
      one.pass_on();
  }
  std::erase_if(streams_,
                [](stream const& one) { return one.from.get() < 0 && one.waiting.empty(); });
}

bool rank_processes::stream::read_some() {
  std::array<char, 65536> text;
  for (pollfd event{from.get(), POLLIN, 0}; ::poll(&event, 1, 0) > 0;) {
    auto const got = ::read(from.get(), text.data(), text.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      from = descriptor();
      return false;
    }
    std::string_view const some(text.data(), static_cast<std::size_t>(got));
    if (!write_all(log.get(), some) && !std::exchange(is_log_cut, true))
      mpt::console::say(
          "launch: the log of a rank cannot be written ({}): it lacks what is shown\n",
          std::generic_category().message(errno));
    waiting += some;
    return true;
  }
  return false;
}

void rank_processes::stream::pass_on() {
  constexpr std::size_t piece = 4096;  // what a pipe that takes anything takes
  std::size_t done = 0;
  for (pollfd event{to, POLLOUT, 0}; done < waiting.size() && ::poll(&event, 1, 0) > 0;) {
    auto const written = ::write(to, waiting.data() + done, std::min(piece, waiting.size() - done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      done = waiting.size();  // lost, as where a terminal is closed; the log has it
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  waiting.erase(0, done);
}

void rank_processes::reap() {
  for (siginfo_t ended{};
       ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0;
       ended = {}) {
    auto const group = ::getpgid(ended.si_pid);
    int status = 0;
    if (::waitpid(ended.si_pid, &status, 0) != ended.si_pid) continue;
    auto const of = [&](pid_t id) {
      return std::ranges::find(running_, id, [](running const& one) { return one.id; });
    };
    bool const is_rank = of(ended.si_pid) != running_.end();  // maybe of another group by now
    auto const place = of(is_rank ? ended.si_pid : group);
    if (place == running_.end()) continue;
    if (is_rank) {
      place->status = status;
      if (WIFSIGNALED(status) && WTERMSIG(status) == last_sent_)
        place->cut_short = parallel::steady_time::clock::now();
    } else if (place->cut_short && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      place->status = status;  // it says more than the signal
    }
  }
  for (std::size_t i = 0; i < running_.size();) {
    auto const& one = running_[i];
    // what a rank has started dies with it, but after a moment where a signal that was for both
    // left it no time to wait
    bool const waits = one.cut_short && last_sent_ != SIGKILL && ::kill(-one.id, 0) == 0 &&
                       parallel::steady_time::clock::now() - *one.cut_short < left_running;
    if (!one.status || waits) {
      ++i;
      continue;
    }
    ::kill(-one.id, SIGKILL);
    note_end(one);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void rank_processes::note_end(running const& one) {
  show();
  rank_end end{one.rank, *one.status, one.log, one.is_shown};
  if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL)
    end.why = parallel::host::count_memory_kills().since(kills_before_);
  if (!end.is_well() && !ending_since_ && (!failure_ || says_more(end, *failure_))) failure_ = end;
}

void rank_processes::send(int signal) {
  if (signal != SIGCONT) last_sent_ = signal;
  for (auto const& one : running_) ::kill(-one.id, signal);
}

void rank_processes::end_soon() {
  auto const now = parallel::steady_time::clock::now();
  if (!ending_since_) ending_since_ = now;
  int const signal = now - *ending_since_ < by_themselves                ? 0
                     : now - *ending_since_ < by_themselves + after_term ? SIGTERM
                                                                         : SIGKILL;
  if (signal == ending_by_) return;
  ending_by_ = signal;
  send(signal);
  if (signal == SIGTERM) send(SIGCONT);  // one that was stopped hears of it too
}

std::string end_of(std::filesystem::path const& file, int lines) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  auto const size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - 16384));
  std::ostringstream all;
  all << in.rdbuf();
  std::string text = all.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  for (int i = 0; i < lines && begin != 0 && begin != std::string::npos; ++i)
    begin = text.rfind('\n', begin - 1);
  return text.substr(begin == std::string::npos ? 0 : begin == 0 ? 0 : begin + 1);
}

std::string last_error_in(std::filesystem::path const& file) {
  constexpr std::string_view mark = "error: ";
  constexpr std::size_t most = 500;
  std::istringstream lines(end_of(file, 1000));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(mark)) out = line.substr(mark.size());
  if (out.size() > most) out = out.substr(0, most) + "...";
  return out;
}

}  // namespace apps
