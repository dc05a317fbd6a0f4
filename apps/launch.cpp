// launch -n RANKS [--nodes N --node I --rendezvous FOLDER] PROGRAM ARGS...: starts the ranks of a
// program on this machine, and of one command each on several (docs/launch.md).
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <mpt/console/say.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

#include "launching/another_start.hpp"
#include "launching/interface.hpp"
#include "launching/nodes.hpp"
#include "launching/rank_processes.hpp"
#include "support/app.hpp"
#include "support/cores.hpp"
#include "support/exit_code.hpp"
#include "support/launch_environment.hpp"
#include "support/run_key.hpp"

namespace {

using mpt::console::say;
namespace fs = std::filesystem;

struct arguments {
  int ranks = 1;
  int nodes = 1;
  int node = 0;
  fs::path rendezvous;
  fs::path key;
  std::string interface;
  fs::path logs = "launch-logs";
  int restarts = 0;
  int wait = 600;
  int gone = 60;
  int spares = 0;
  bool nodes_of_job = false;  // the number of nodes is the job's, not the command line's
  int least = 0;              // all
  int multiple = 1;
  bool makes_key = false;  // where none is given
  std::vector<std::string> command;

  [[nodiscard]] bool is_alone() const { return nodes + spares == 1; }
};

/// A folder for the rendezvous of one machine, gone with this.
class own_folder {
 public:
  own_folder() {
    std::error_code missing;
    auto const folder = fs::temp_directory_path(missing);
    char const* const given = std::getenv("TMPDIR");
    parallel::require(!missing, "the environment says TMPDIR=", given == nullptr ? "" : given,
                      ", which is no folder here, and the ranks meet in one of temporary files; "
                      "create it, unset TMPDIR, or name another by --rendezvous FOLDER");
    auto name = (folder / "parallellm-launch.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      parallel::files::failure(name, "cannot create this folder");
    path_ = name;
  }
  own_folder(own_folder const&) = delete;
  own_folder& operator=(own_folder const&) = delete;
  ~own_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path const& path() const { return path_; }

 private:
  fs::path path_;
};

/// The program's file: one beside this one goes before what the search path finds.
std::string find_program(std::string const& name) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code ignored;
  auto const beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / name;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  std::string const folders = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  for (std::size_t begin = 0; begin < folders.size();) {
    auto const end = std::min(folders.find(':', begin), folders.size());
    auto const there = fs::path(folders.substr(begin, end - begin)) / name;
    if (::access(there.c_str(), X_OK) == 0) return there;
    begin = end + 1;
  }
  parallel::fail("no program ", name, " is beside launch or in PATH");
}

apps::node_report report_of(arguments const& what) {
  apps::node_report out{.node = what.node,
                        .nodes = what.nodes,
                        .ranks = what.ranks,
                        .restarts = what.restarts,
                        .spares = what.spares,
                        .least = what.least,
                        .multiple = what.multiple,
                        .host = parallel::machine_name(),
                        .program = what.command.front(),
                        .arguments = {what.command.begin() + 1, what.command.end()}};
  if (what.is_alone()) return out;  // nobody compares
  out.program_hash = apps::hash_of_file(what.command.front());
  for (auto const& word : out.arguments)
    if (std::error_code ignored; fs::is_regular_file(word, ignored))
      out.files[word] = apps::hash_of_file(word);
  return out;
}

/// What another node has told, or that the folder in which it would has failed for too long.
std::optional<apps::node_failure> heard(apps::node_meeting& meeting, int self) {
  try {
    auto const failure = meeting.failure_elsewhere();
    if (failure) say("error: node {}: {}\n", failure->node, failure->message);
    return failure;
  } catch (parallel::error const& problem) {
    say("error: {}\n", problem.what());
    apps::node_failure const failure{self, static_cast<int>(apps::code_of_current_exception()),
                                     problem.what()};
    meeting.tell_failure(failure);
    return failure;
  }
}

/// Waits for what the ranks come to: nothing, or what failed first, here or on another node.
/// `asked_to_stop`: this process was sent a signal, which the ranks were passed on.
std::optional<apps::node_failure> run_ranks(apps::rank_processes& ranks, arguments const& what,
                                            apps::node_meeting& meeting, bool& asked_to_stop) {
  constexpr auto often = std::chrono::milliseconds(200);
  std::optional<apps::node_failure> failure;
  auto asked_others = std::chrono::steady_clock::now();
  auto const look = [&] {
    auto const signal = ranks.look(often);
    if (!signal) return;
    say("launch: {} {}\n", ::strsignal(*signal),
        asked_to_stop ? "again: the ranks are ended"
                      : "is passed on to the ranks; a second one ends them");
    ranks.send(asked_to_stop ? SIGKILL : *signal);
    if (!std::exchange(asked_to_stop, true)) meeting.tell_leave();
  };
  // what has failed is told before this node goes on, unless it is to stop
  while (!ranks.all_ended() || (meeting.has_to_tell() && !asked_to_stop)) {
    look();
    meeting.beat();
    if (!failure && ranks.failure()) {
      // those that fail with it, of which one may have more to say
      for (auto const until = std::chrono::steady_clock::now() + often;
           !ranks.all_ended() && std::chrono::steady_clock::now() < until;)
        look();
      auto const& end = *ranks.failure();
      failure = {what.node, end.code(), end.text(parallel::machine_name())};
      auto const said = apps::last_error_in(end.log);  // the others do not see its log
      meeting.tell_failure({failure->node, failure->code,
                            said.empty() ? failure->message : failure->message + ": " + said});
      auto const last = end.is_shown ? std::string() : apps::end_of(end.log);
      say("error: {}; {} {}{}\n", failure->message,
          end.is_shown   ? "its log is"
          : last.empty() ? "it printed nothing to"
                         : "the end of",
          end.log.string(), last.empty() ? last : ":\n" + last);
    }
    // a file of every node, on a disk that all share
    auto const now = std::chrono::steady_clock::now();
    if (!failure && now - asked_others > std::chrono::seconds(1)) {
      asked_others = now;
      failure = heard(meeting, what.node);
    }
    if (failure) ranks.end_soon();
  }
  return failure;
}

/// Waits until the ranks of the other nodes have ended too.
std::optional<apps::node_failure> wait_for_nodes(apps::rank_processes& ranks, arguments const& what,
                                                 apps::node_meeting& meeting, bool& asked_to_stop) {
  meeting.tell_done();
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(what.wait);
  while (!meeting.all_done()) {
    meeting.beat();
    if (auto const failure = heard(meeting, what.node)) return failure;
    if (std::chrono::steady_clock::now() >= until)
      parallel::fail(fmt::format(
          "this node's ranks have ended well, but node {} has not said within {} s that its own "
          "have; see whether launch still runs there",
          fmt::join(meeting.not_done(), ", "), what.wait));
    if (auto const signal = ranks.look(std::chrono::milliseconds(100))) {
      asked_to_stop = true;
      say("launch: {} while it waited for the other nodes\n", ::strsignal(*signal));
      return apps::node_failure{.node = what.node, .code = 128 + *signal, .message = {}};
    }
  }
  return std::nullopt;
}

/// A node that does not run waits until the others meet again (true), or have ended.
bool wait_as_spare(arguments const& what, apps::node_meeting& meeting) {
  say("launch: node {} is not needed now, and takes the place of one that is gone\n", what.node);
  while (!meeting.meets_again()) {
    if (meeting.all_done()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return true;
}

void start_ranks(apps::rank_processes& ranks, arguments const& what, fs::path const& key,
                 apps::node_place const& place) {
  namespace names = apps::launch_environment;
  auto const logs = what.logs / place.folder.filename();
  parallel::files::make_folders(logs);
  if (place.position == 0 || place.generation == 0)
    say("launch: logs of the ranks are in {}\n", logs.string());
  for (int i = 0; i < what.ranks; ++i) {
    int const rank = place.position * what.ranks + i;
    ranks.start({.rank = rank,
                 .words = what.command,
                 .environment = {{"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", std::to_string(place.nodes * what.ranks)},
                                 {"LOCAL_RANK", std::to_string(i)},
                                 {"LOCAL_WORLD_SIZE", std::to_string(what.ranks)},
                                 {"GROUP_RANK", std::to_string(place.position)},
                                 {names::rendezvous, place.folder.string()},
                                 {names::key, key.string()},
                                 {names::interface, what.interface},
                                 {names::generation, std::to_string(place.generation)}},
                 .log = logs / fmt::format("rank-{}.log", rank),
                 .is_shown = rank == 0});
  }
}

/// Says so where another start would be of no use.
bool may_help(apps::another_start& starts, int code) {
  auto const answer = starts.may_help(code);
  if (answer == apps::another_start::answer::of_no_use)
    say("launch: not started again: code {} would be the end of that, too\n", code);
  return answer == apps::another_start::answer::yes;
}

/// Waits before the next start. Returns whether this process was sent a signal.
bool asked_to_stop_in(std::chrono::milliseconds pause, apps::rank_processes& ranks,
                      apps::node_meeting& meeting) {
  auto const until = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < until) {
    meeting.beat();
    if (!ranks.look(std::chrono::milliseconds(100))) continue;
    meeting.tell_leave();
    return true;
  }
  return false;
}

/// Says how it goes on after a failure, and waits. Returns whether this process was sent a signal.
bool asked_to_stop_before_next(apps::another_start const& other, arguments const& what,
                               apps::rank_processes& ranks, apps::node_meeting& meeting) {
  auto const pause = other.pause();
  auto const after = pause.count() == 0 ? std::string()
                                        : fmt::format(", after {:.3g} s",
                                                      static_cast<double>(pause.count()) / 1000);
  if (other.waits())
    say("launch: another program is waited for, {} s at most; starting again{}\n", what.wait,
        after);
  else
    say("launch: starting again, {} of {} times{}\n", other.counted() + 1, what.restarts, after);
  return asked_to_stop_in(pause, ranks, meeting);
}

/// The run's key, where this launch alone has it: gone with this, however launch ends.
class key_of_one {
 public:
  key_of_one() = default;
  key_of_one(key_of_one const&) = delete;
  key_of_one& operator=(key_of_one const&) = delete;
  ~key_of_one() {
    if (!file_.empty()) static_cast<void>(::unlink(file_.c_str()));
  }
  void remove_at_end(fs::path const& file) { file_ = file; }

 private:
  fs::path file_;
};

/// Starts the ranks, and again where that may help. The code to end with; 0: all is done.
int run_starts(arguments const& what, apps::node_meeting& meeting, key_of_one& own_key) {
  bool asked_to_stop = false;
  int last_nodes = what.nodes;
  // the others wait for this node, which may pause alone, until it is held to be gone
  apps::another_start other(what.restarts, std::chrono::milliseconds(500) * what.gone,
                            std::chrono::seconds(what.wait));
  for (int generation = 0;;) {
    auto const place = meeting.meet(generation);
    // what was there already only now: another launch might have been using that folder
    if (what.is_alone() && what.makes_key) own_key.remove_at_end(what.key);
    generation = place.generation + 1;
    other.begin(place.generation);
    if (place.position < 0) {
      if (!wait_as_spare(what, meeting)) return 0;
      auto const failure = meeting.failure_elsewhere();
      if (failure && !may_help(other, failure->code)) return failure->code;
      continue;
    }
    if (place.nodes != std::exchange(last_nodes, place.nodes))
      say("launch: it goes on with {} of {} nodes, {} ranks\n", place.nodes, what.nodes,
          place.nodes * what.ranks);
    apps::rank_processes ranks;
    std::optional<apps::node_failure> failure;
    try {
      start_ranks(ranks, what, what.key, place);
      failure = run_ranks(ranks, what, meeting, asked_to_stop);
      if (!failure) failure = wait_for_nodes(ranks, what, meeting, asked_to_stop);
    } catch (parallel::error const& problem) {
      auto const code = static_cast<int>(apps::code_of_current_exception());
      meeting.tell_failure({what.node, code, problem.what()});
      throw;
    }
    if (!failure) break;
    if (asked_to_stop || !may_help(other, failure->code)) return failure->code;
    if (meeting.are_too_few_left()) {
      say("launch: not started again: another node was asked to stop, and too few are left\n");
      return failure->code;
    }
    if (asked_to_stop_before_next(other, what, ranks, meeting)) return failure->code;
  }
  if (what.makes_key && meeting.leads()) static_cast<void>(::unlink(what.key.c_str()));
  meeting.clean();
  return 0;
}

/// The code to end with.
int run(arguments what) {
  parallel::require(what.node < what.nodes + what.spares, "--node ", what.node,
                    ": nodes, with spares, are numbered from 0 to ", what.nodes + what.spares - 1);
  if (what.least == 0) what.least = what.nodes;
  parallel::require(what.least <= what.nodes && what.least % what.multiple == 0, "--least ",
                    what.least, ": expected at most --nodes ", what.nodes,
                    " and a multiple of --multiple ", what.multiple);
  parallel::require(what.is_alone() || !what.rendezvous.empty() || !what.nodes_of_job,
                    "SLURM_JOB_NUM_NODES says that this job has ", what.nodes,
                    " nodes: start launch once on each of them, as by srun --ntasks-per-node=1, "
                    "with --rendezvous FOLDER, one that all nodes see; or give --nodes 1 for this "
                    "one alone");
  parallel::require(what.is_alone() || !what.rendezvous.empty(), "--nodes ", what.nodes,
                    " needs --rendezvous FOLDER, one that all nodes see");
  what.command.front() = find_program(what.command.front());
  if (!what.interface.empty())
    apps::require_interface(what.interface);
  else
    what.interface = what.is_alone() ? "lo" : apps::usual_interface();

  // nobody is waited for before ranks run, which a signal is passed on to then
  if (what.is_alone()) apps::hold_signals_back();
  std::optional<own_folder> temporary;
  if (what.rendezvous.empty()) {
    what.rendezvous = temporary.emplace().path();
  } else if (!parallel::files::exists(what.rendezvous)) {
    parallel::files::make_folders(what.rendezvous);
  }
  what.rendezvous = fs::absolute(what.rendezvous);
  what.makes_key = what.key.empty();
  if (what.makes_key) what.key = what.rendezvous / "key";
  what.key = fs::absolute(what.key);
  key_of_one own_key;
  if (what.is_alone() && what.makes_key && !parallel::files::exists(what.key))
    own_key.remove_at_end(what.key);
  auto const key =
      what.makes_key ? apps::run_key::read_or_make(what.key) : apps::run_key::read(what.key);
  apps::node_meeting meeting(what.rendezvous, key, report_of(what), std::chrono::seconds(what.wait),
                             std::chrono::seconds(what.gone));
  return run_starts(what, meeting, own_key);
}

/// A number that a scheduler gives, where it does.
int from_environment(std::initializer_list<char const*> names, int otherwise) {
  for (char const* const name : names)
    if (char const* const text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  arguments what;
  what.nodes = from_environment({"SLURM_JOB_NUM_NODES"}, 1);
  what.node = from_environment({"SLURM_NODEID", "JOB_COMPLETION_INDEX"}, 0);
  CLI::App app{
      "launch -n RANKS [OPTIONS] PROGRAM [ARGUMENTS...]: starts a program as several ranks, on "
      "this "
      "machine or, by one such command on each, on several"};
  app.add_option("-n,--ranks", what.ranks, "ranks on this machine")
      ->required()
      ->check(apps::whole_number(1, 4096));
  app.add_option("--nodes", what.nodes, "machines, each with as many ranks")
      ->check(apps::whole_number(1, 65536))
      ->capture_default_str();
  app.add_option("--node", what.node, "which of them this is, from 0")
      ->check(apps::whole_number(0, 65535))
      ->capture_default_str();
  app.add_option("--rendezvous", what.rendezvous, "a folder that all machines see, for this run");
  app.add_option("--key", what.key,
                 "the run's key, a file of mode 0600; else one is made in that folder");
  app.add_option("--interface", what.interface, "the network interface to talk over");
  app.add_option("--logs", what.logs, "the folder for what ranks print")->capture_default_str();
  app.add_option("--restarts", what.restarts, "how often to start again after a failure")
      ->check(apps::whole_number(0, 1000000))
      ->capture_default_str();
  app.add_option("--spares", what.spares,
                 "further machines, numbered after those, that take the places of others")
      ->check(apps::whole_number(0, 65535));
  app.add_option("--least", what.least,
                 "machines with which it goes on where others are gone; else all must be there")
      ->check(apps::whole_number(1, 65536));
  app.add_option("--multiple", what.multiple,
                 "and a multiple of so many: those that tensor, context and pipeline ranks need")
      ->check(apps::whole_number(1, 65536))
      ->capture_default_str();
  app.add_option("--gone", what.gone,
                 "seconds after a failure in which a machine comes back, or is gone")
      ->check(apps::whole_number(1, 1000000))
      ->capture_default_str();
  app.add_option("--wait", what.wait, "seconds to wait for the other machines")
      ->check(apps::whole_number(1, 1000000))
      ->capture_default_str();
  app.prefix_command();
  // who reads what rank 0 prints may leave, and the run goes on
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  int code = 0;
  int const problem = apps::run(app, argc, argv, [&] {
    what.command = app.remaining();
    what.nodes_of_job = app.count("--nodes") == 0;
    parallel::require(!what.command.empty(), "which program? launch -n RANKS PROGRAM ARGUMENTS");
    if (what.command.front().starts_with('-')) throw CLI::ExtrasError(what.command);
    code = run(what);
  });
  return problem != 0 ? problem : code;
}
