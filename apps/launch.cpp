// launch -n RANKS [--nodes N --node I --rendezvous FOLDER] PROGRAM ARGS...: starts the ranks of a
// program on this machine or, by one such command on each machine, on several (docs/launch.md).
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
#include <mpt/net/download.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/temporary_folder.hpp>

#include <cli/app.hpp>
#include <devices/cores.hpp>
#include <launch/interface.hpp>
#include <launch/launch_environment.hpp>
#include <launch/nodes.hpp>
#include <launch/rank_processes.hpp>
#include <launch/restart_policy.hpp>
#include <launch/run_key.hpp>
#include <process/exit_code.hpp>

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
  int wait_limit = 600;
  int absence_limit = 60;
  int spares = 0;
  bool has_nodes_from_job =
      false;          // the number of nodes comes from the job, not from the command line
  int min_nodes = 0;  // 0: all
  int node_multiple = 1;
  bool has_generated_key = false;  // no key file is given
  std::vector<std::string> command;

  [[nodiscard]] bool is_alone() const { return nodes + spares == 1; }
};

/// The machine's folder for temporary files, in which the ranks of one machine meet.
fs::path rendezvous_parent() {
  std::error_code missing;
  auto const folder = fs::temp_directory_path(missing);
  char const* const temporary_path = std::getenv("TMPDIR");
  parallel::require(!missing,
                    "the environment says TMPDIR=", temporary_path == nullptr ? "" : temporary_path,
                    ", which is no folder here, and the ranks meet in one of temporary files; "
                    "create it, unset TMPDIR, or name another by --rendezvous FOLDER");
  return folder;
}

/// The program's file: one in the folder of this program is preferred to the search path.
std::string find_program(std::string const& name) {
  if (name.find('/') != std::string::npos) return name;
  std::error_code ignored;
  auto const sibling = fs::read_symlink("/proc/self/exe", ignored).parent_path() / name;
  if (::access(sibling.c_str(), X_OK) == 0) return sibling;
  std::string const folders = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  for (std::size_t begin = 0; begin < folders.size();) {
    auto const end = std::min(folders.find(':', begin), folders.size());
    auto const candidate = fs::path(folders.substr(begin, end - begin)) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  parallel::fail("no program ", name, " is next to launch or in PATH");
}

apps::node_report report_of(arguments const& options) {
  apps::node_report out{.node = options.node,
                        .nodes = options.nodes,
                        .ranks = options.ranks,
                        .restarts = options.restarts,
                        .spares = options.spares,
                        .min_nodes = options.min_nodes,
                        .node_multiple = options.node_multiple,
                        .host = parallel::machine_name(),
                        .program = options.command.front(),
                        .arguments = {options.command.begin() + 1, options.command.end()}};
  if (options.is_alone()) return out;  // there is no other node to compare with
  out.program_hash = mpt::net::digest_of_file(options.command.front(), {});
  for (auto const& word : out.arguments)
    if (std::error_code ignored; fs::is_regular_file(word, ignored))
      out.files[word] = mpt::net::digest_of_file(word, {});
  return out;
}

/// The failure of another node, or of the folder in which nodes announce failures, when that has
/// failed for too long.
std::optional<apps::node_failure> poll_failure(apps::node_meeting& meeting, int self) {
  try {
    auto const failure = meeting.remote_failure();
    if (failure) say("error: node {}: {}\n", failure->node, failure->message);
    return failure;
  } catch (parallel::error const& problem) {
    say("error: {}\n", problem.what());
    apps::node_failure const failure{self, static_cast<int>(apps::code_of_current_exception()),
                                     problem.what()};
    meeting.announce_failure(failure);
    return failure;
  }
}

/// Waits until the ranks have ended. Returns the first failure, of this node or another, if there
/// is one. `is_stop_requested` becomes true when this process was sent a signal, which is forwarded
/// to the ranks.
std::optional<apps::node_failure> run_ranks(apps::rank_processes& ranks, arguments const& options,
                                            apps::node_meeting& meeting, bool& is_stop_requested) {
  constexpr auto poll_interval = std::chrono::milliseconds(200);
  std::optional<apps::node_failure> failure;
  auto last_poll = std::chrono::steady_clock::now();
  auto const poll_ranks = [&] {
    auto const signal = ranks.poll_events(poll_interval);
    if (!signal || (*signal == SIGPIPE && is_stop_requested)) return;
    say("launch: {} {}\n", ::strsignal(*signal),
        is_stop_requested ? "again: the ranks are ended, without saving"
                          : "is passed on to the ranks; a second one ends them");
    int const forwarded =
        *signal == SIGPIPE ? SIGTERM : *signal;  // the ranks' own outputs are whole
    ranks.send(is_stop_requested ? SIGKILL : forwarded);
    if (!std::exchange(is_stop_requested, true)) meeting.announce_leave();
  };
  // a failure is announced before this node goes on, unless it must stop
  while (!ranks.have_all_ended() || (meeting.has_pending_messages() && !is_stop_requested)) {
    poll_ranks();
    meeting.beat();
    if (!failure && ranks.failure()) {
      // of the ranks that fail soon afterwards one may tell more about the cause
      for (auto const deadline = std::chrono::steady_clock::now() + poll_interval;
           !ranks.have_all_ended() && std::chrono::steady_clock::now() < deadline;)
        poll_ranks();
      auto const& end = *ranks.failure();
      failure = {options.node, end.code(), end.text(parallel::machine_name())};
      auto const last_error = apps::last_error_in(end.log);  // the other nodes do not see this log
      meeting.announce_failure(
          {failure->node, failure->code,
           last_error.empty() ? failure->message : failure->message + ": " + last_error});
      auto const log_tail = end.is_shown ? std::string() : apps::tail_of(end.log);
      say("error: {}; {} {}{}\n", failure->message,
          end.is_shown       ? "its log is"
          : log_tail.empty() ? "it printed nothing to"
                             : "the end of",
          end.log.string(), log_tail.empty() ? log_tail : ":\n" + log_tail);
    }
    // the poll looks for a file of each other node on the shared disk, so it is not done each time
    auto const current_time = std::chrono::steady_clock::now();
    if (!failure && current_time - last_poll > std::chrono::seconds(1)) {
      last_poll = current_time;
      failure = poll_failure(meeting, options.node);
    }
    if (failure) ranks.request_end();
  }
  return failure;
}

/// Waits until the ranks of the other nodes have ended, too.
std::optional<apps::node_failure> wait_for_nodes(apps::rank_processes& ranks,
                                                 arguments const& options,
                                                 apps::node_meeting& meeting,
                                                 bool& is_stop_requested) {
  meeting.announce_done();
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(options.wait_limit);
  while (!meeting.are_all_done()) {
    meeting.beat();
    if (auto const failure = poll_failure(meeting, options.node)) return failure;
    if (std::chrono::steady_clock::now() >= deadline)
      parallel::fail(fmt::format(
          "this node's ranks have ended well, but node {} has not said within {} s that its own "
          "have; see whether launch still runs there",
          fmt::join(meeting.unfinished_nodes(), ", "), options.wait_limit));
    if (auto const signal = ranks.poll_events(std::chrono::milliseconds(100))) {
      is_stop_requested = true;
      say("launch: {} while it waited for the other nodes\n", ::strsignal(*signal));
      return apps::node_failure{.node = options.node, .code = 128 + *signal, .message = {}};
    }
  }
  return std::nullopt;
}

/// Waits on a spare node until the others meet again (true) or have ended (false).
bool wait_as_spare(arguments const& options, apps::node_meeting& meeting) {
  say("launch: node {} is not needed now, and takes the place of one that is gone\n", options.node);
  while (!meeting.has_new_meeting()) {
    if (meeting.are_all_done()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return true;
}

void start_ranks(apps::rank_processes& ranks, arguments const& options, fs::path const& key,
                 apps::node_assignment const& assignment) {
  namespace names = apps::launch_environment;
  auto const logs = options.logs / assignment.folder.filename();
  parallel::files::make_folders(logs);
  if (assignment.position == 0 || assignment.generation == 0)
    say("launch: logs of the ranks are in {}\n", logs.string());
  for (int local_rank = 0; local_rank < options.ranks; ++local_rank) {
    int const rank = assignment.position * options.ranks + local_rank;
    ranks.start({.rank = rank,
                 .words = options.command,
                 .environment = {{"RANK", std::to_string(rank)},
                                 {"WORLD_SIZE", std::to_string(assignment.nodes * options.ranks)},
                                 {"LOCAL_RANK", std::to_string(local_rank)},
                                 {"LOCAL_WORLD_SIZE", std::to_string(options.ranks)},
                                 {"GROUP_RANK", std::to_string(assignment.position)},
                                 {names::rendezvous, assignment.folder.string()},
                                 {names::key, key.string()},
                                 {names::interface, options.interface},
                                 {names::generation, std::to_string(assignment.generation)}},
                 .log = logs / fmt::format("rank-{}.log", rank),
                 .is_shown = rank == 0});
  }
}

/// Whether another start may help; prints a line where it would be useless.
bool should_restart(apps::restart_policy& starts, int code) {
  auto const answer = starts.decide(code);
  if (answer == apps::restart_policy::answer::useless)
    say("launch: not started again: code {} would be the end of that, too\n", code);
  return answer == apps::restart_policy::answer::yes;
}

/// Waits before the next start. Returns whether this process was sent a signal.
bool pause_or_stop(std::chrono::milliseconds pause, apps::rank_processes& ranks,
                   apps::node_meeting& meeting) {
  auto const deadline = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < deadline) {
    meeting.beat();
    if (!ranks.poll_events(std::chrono::milliseconds(100))) continue;
    meeting.announce_leave();
    return true;
  }
  return false;
}

/// Prints what follows a failure, and waits. Returns whether this process was sent a signal.
bool pause_before_restart(apps::restart_policy const& policy, arguments const& options,
                          apps::rank_processes& ranks, apps::node_meeting& meeting) {
  auto const pause = policy.pause();
  auto const pause_text =
      pause.count() == 0
          ? std::string()
          : fmt::format(", after {:.3g} s", static_cast<double>(pause.count()) / 1000);
  if (policy.is_waiting())
    say("launch: another program is waited for, {} s at most; starting again{}\n",
        options.wait_limit, pause_text);
  else
    say("launch: starting again, {} of {} times{}\n", policy.restart_count() + 1, options.restarts,
        pause_text);
  return pause_or_stop(pause, ranks, meeting);
}

/// The key file of a run that has this launch only; the destructor removes it, however launch ends.
class single_launch_key {
 public:
  single_launch_key() = default;
  single_launch_key(single_launch_key&&) = delete;
  ~single_launch_key() {
    if (!file_.empty()) static_cast<void>(::unlink(file_.c_str()));
  }
  void remove_at_end(fs::path const& file) { file_ = file; }

 private:
  fs::path file_;
};

/// Starts the ranks, and restarts them where that may help. Returns the exit code; 0: success.
int run_starts(arguments const& options, apps::node_meeting& meeting, single_launch_key& own_key) {
  bool is_stop_requested = false;
  int last_nodes = options.nodes;
  // the others treat this node as gone after a while, so its own pauses must be shorter
  apps::restart_policy policy(options.restarts,
                              std::chrono::milliseconds(500) * options.absence_limit,
                              std::chrono::seconds(options.wait_limit));
  for (int generation = 0;;) {
    auto const assignment = meeting.meet(generation);
    // an existing key is removed only after the meeting: another launch might use this folder
    if (options.is_alone() && options.has_generated_key) own_key.remove_at_end(options.key);
    generation = assignment.generation + 1;
    policy.begin(assignment.generation);
    if (assignment.position < 0) {
      if (!wait_as_spare(options, meeting)) return 0;
      auto const failure = meeting.remote_failure();
      if (failure && !should_restart(policy, failure->code)) return failure->code;
      continue;
    }
    if (assignment.nodes != std::exchange(last_nodes, assignment.nodes))
      say("launch: it goes on with {} of {} nodes, {} ranks\n", assignment.nodes, options.nodes,
          assignment.nodes * options.ranks);
    apps::rank_processes ranks;
    std::optional<apps::node_failure> failure;
    try {
      start_ranks(ranks, options, options.key, assignment);
      failure = run_ranks(ranks, options, meeting, is_stop_requested);
      if (!failure) failure = wait_for_nodes(ranks, options, meeting, is_stop_requested);
    } catch (parallel::error const& problem) {
      auto const code = static_cast<int>(apps::code_of_current_exception());
      meeting.announce_failure({options.node, code, problem.what()});
      throw;
    }
    if (!failure) break;
    if (is_stop_requested || !should_restart(policy, failure->code)) return failure->code;
    if (meeting.are_too_few_left()) {
      say("launch: not started again: another node was asked to stop, and too few are left\n");
      return failure->code;
    }
    if (pause_before_restart(policy, options, ranks, meeting)) return failure->code;
  }
  if (options.has_generated_key && meeting.leads())
    static_cast<void>(::unlink(options.key.c_str()));
  meeting.clean();
  return 0;
}

/// Returns the exit code.
int run(arguments options) {
  parallel::require(options.node < options.nodes + options.spares, "--node ", options.node,
                    ": nodes, with spares, are numbered from 0 to ",
                    options.nodes + options.spares - 1);
  if (options.min_nodes == 0) options.min_nodes = options.nodes;
  parallel::require(
      options.min_nodes <= options.nodes && options.min_nodes % options.node_multiple == 0,
      "--least ", options.min_nodes, ": expected at most --nodes ", options.nodes,
      " and a multiple of --multiple ", options.node_multiple);
  parallel::require(
      options.is_alone() || !options.rendezvous.empty() || !options.has_nodes_from_job,
      "SLURM_JOB_NUM_NODES says that this job has ", options.nodes,
      " nodes: start launch once on each of them, as by srun --ntasks-per-node=1, "
      "with --rendezvous FOLDER, one that all nodes see; or give --nodes 1 for this "
      "one alone");
  parallel::require(options.is_alone() || !options.rendezvous.empty(), "--nodes ", options.nodes,
                    " needs --rendezvous FOLDER, one that all nodes see");
  options.command.front() = find_program(options.command.front());
  if (!options.interface.empty())
    apps::require_interface(options.interface);
  else
    options.interface = options.is_alone() ? "lo" : apps::usual_interface();

  // a single machine does not wait for others, so a signal may stay pending until ranks run, and is
  // forwarded to them then
  if (options.is_alone()) apps::block_handled_signals();
  std::optional<parallel::temporary_folder> temporary_rendezvous;
  if (options.rendezvous.empty()) {
    options.rendezvous =
        temporary_rendezvous.emplace(rendezvous_parent(), "parallellm-launch.").path();
  } else if (!parallel::files::exists(options.rendezvous)) {
    parallel::files::make_folders(options.rendezvous);
  }
  options.rendezvous = fs::absolute(options.rendezvous);
  options.has_generated_key = options.key.empty();
  if (options.has_generated_key) options.key = options.rendezvous / "key";
  options.key = fs::absolute(options.key);
  single_launch_key own_key;
  if (options.is_alone() && options.has_generated_key && !parallel::files::exists(options.key))
    own_key.remove_at_end(options.key);
  auto const key = options.has_generated_key ? apps::run_key::read_or_make(options.key)
                                             : apps::run_key::read(options.key);
  apps::node_meeting meeting(options.rendezvous, key, report_of(options),
                             std::chrono::seconds(options.wait_limit),
                             std::chrono::seconds(options.absence_limit));
  return run_starts(options, meeting, own_key);
}

/// The number in the first of these variables that is set by a scheduler, or `fallback`.
int from_environment(std::initializer_list<char const*> names, int fallback) {
  for (char const* const name : names)
    if (char const* const text = std::getenv(name)) return std::atoi(text);
  return fallback;
}

}  // namespace

int main(int argc, char** argv) {
  arguments options;
  options.nodes = from_environment({"SLURM_JOB_NUM_NODES"}, 1);
  options.node = from_environment({"SLURM_NODEID", "JOB_COMPLETION_INDEX"}, 0);
  CLI::App app{
      "launch -n RANKS [OPTIONS] PROGRAM [ARGUMENTS...]: starts a program as several ranks, on "
      "this "
      "machine or, by one such command on each, on several"};
  apps::add_examples(
      app,
      {"launch -n 8 pretrain run.yaml save_folder=ckpt",
       "launch -n 8 --nodes 4 --node 0 --rendezvous /shared/run-7 --restarts 3 pretrain run.yaml"});
  app.add_option("-n,--ranks", options.ranks, "ranks on this machine")
      ->required()
      ->check(apps::whole_number(1, 4096));
  app.add_option("--nodes", options.nodes, "number of machines, each with this many ranks")
      ->check(apps::whole_number(1, 65536))
      ->capture_default_str();
  app.add_option("--node", options.node, "the number of this machine, from 0")
      ->check(apps::whole_number(0, 65535))
      ->capture_default_str();
  app.add_option("--rendezvous", options.rendezvous,
                 "a folder that all machines see, for this run");
  app.add_option("--key", options.key,
                 "the run's key, a file of mode 0600; else one is made in that folder");
  app.add_option("--interface", options.interface, "the network interface to talk over");
  app.add_option("--logs", options.logs, "the folder for the output of the ranks")
      ->capture_default_str();
  app.add_option("--restarts", options.restarts, "how often to start again after a failure")
      ->check(apps::whole_number(0, 1000000))
      ->capture_default_str();
  app.add_option("--spares", options.spares,
                 "further machines, numbered after those, that take the places of others")
      ->check(apps::whole_number(0, 65535));
  app.add_option(
         "--least", options.min_nodes,
         "the least number of machines with which it goes on when others are gone; default: all")
      ->check(apps::whole_number(1, 65536));
  app.add_option(
         "--multiple", options.node_multiple,
         "the number of machines is a multiple of this, as tensor, context and pipeline ranks need")
      ->check(apps::whole_number(1, 65536))
      ->capture_default_str();
  app.add_option("--gone", options.absence_limit,
                 "seconds after a failure until a missing machine counts as gone")
      ->check(apps::whole_number(1, 1000000))
      ->capture_default_str();
  app.add_option("--wait", options.wait_limit, "seconds to wait for the other machines")
      ->check(apps::whole_number(1, 1000000))
      ->capture_default_str();
  app.prefix_command();
  // the run goes on when the reader of rank 0's output closes its pipe
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  int code = 0;
  int const problem = apps::run(app, argc, argv, [&] {
    options.command = app.remaining();
    options.has_nodes_from_job = app.count("--nodes") == 0;
    parallel::require(!options.command.empty(), "which program? launch -n RANKS PROGRAM ARGUMENTS");
    if (options.command.front().starts_with('-')) throw CLI::ExtrasError(options.command);
    code = run(options);
  });
  return problem != 0 ? problem : code;
}
