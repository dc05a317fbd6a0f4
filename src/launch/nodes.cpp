#include <launch/nodes.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

#include <launch/sealed_file.hpp>
#include <process/exit_code.hpp>

namespace apps {

// The report in a node's file. Its `clock` is the reader's to set.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(node_report, node, nodes, ranks, restarts, spares, min_nodes,
                                   node_multiple, host, program, program_hash, arguments, files)

namespace {

using json = nlohmann::json;
using std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(50);
/// A wrong seal is taken for a leftover of an earlier run until no valid seal has been read for
/// this long.
constexpr auto stale_seal_limit = std::chrono::seconds(5);

/// The report in a node's file. The file's time is that of the folder's clock, the time in its text
/// that of the node's clock: their difference is the report's `clock`.
node_report report_of(sealed_text const& file) {
  auto out = file.text.get<node_report>();
  out.clock = file.text.at("time").get<double>() - file.written;
  return out;
}

/// The value of `key` in the text of a file. Files that an older version left have it as `old_key`.
json const& value_of(json const& text, char const* key, char const* old_key) {
  return text.at(text.contains(key) ? key : old_key);
}

json const& nonce_of(json const& report) { return value_of(report, "nonce", "drawn"); }

/// The parts of a start's name, which is `RUN-START` or `RUN-START.ATTEMPT`.
struct start_name {
  std::string run;
  int start = 0, attempt = 0;  // the number of the start, and of the attempt to lead it
};

start_name parse_start_name(std::string const& name) {
  auto const hyphen = name.rfind('-');
  auto const dot = name.find('.', hyphen);
  return {name.substr(0, hyphen), std::atoi(name.c_str() + hyphen + 1),
          dot == std::string::npos ? 0 : std::atoi(name.c_str() + dot + 1)};
}

/// The text of a file; null where there is no such file, or its seal is wrong.
json content_of(std::optional<sealed_text> const& file) { return file ? file->text : json(); }

/// Whether the answer names a later start of the run of `name`, or a later attempt to lead the same
/// start.
bool is_later_start(json const& answer, std::string const& name) {
  if (answer.is_null()) return false;
  auto const current = parse_start_name(answer.at("name"));
  auto const reference = parse_start_name(name);
  return current.run == reference.run &&
         std::tie(current.start, current.attempt) > std::tie(reference.start, reference.attempt);
}

bool contains(std::vector<int> const& nodes, int node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

node_meeting::node_meeting(std::filesystem::path folder, run_key key, node_report self,
                           seconds wait, seconds absence_limit, seconds beat_interval)
    : folder_(std::move(folder)),
      key_(std::move(key)),
      self_(std::move(self)),
      wait_limit_(wait),
      absence_limit_(absence_limit),
      beat_interval_(beat_interval),
      read_outage_(wait),
      write_outage_(wait),
      run_(self_.node == 0 ? random_name() : std::string()) {}

std::filesystem::path node_meeting::file_of(int node) const {
  return folder_ / fmt::format("node-{}", node);
}

void node_meeting::put(std::filesystem::path const& file, std::string const& text) const {
  // the nonce names the temporary file: two launches that both claim this node must both hear of it
  write_sealed(file, key_, nonce_, text);
}

std::optional<sealed_text> node_meeting::read(std::filesystem::path const& file) {
  std::optional<sealed_text> found;
  read_outage_.retry([&] { found = read_sealed(file, key_); });
  return found;
}

std::string node_meeting::report_text(std::string const& accepted_name) const {
  json out = self_;
  seconds const time = std::chrono::system_clock::now().time_since_epoch();
  out.update({{"time", time.count()}, {"nonce", nonce_}, {"accepted", accepted_name}});
  return out.dump();
}

void node_meeting::report(std::string const& accepted_name) {
  // each attempt writes the time at which it is made
  write_outage_.retry([&] { put(file_of(self_.node), report_text(accepted_name)); });
}

node_assignment node_meeting::meet(int generation) {
  nonce_ = random_name();
  bool const is_first = name_.empty();
  if (is_first)  // an error of the folder is reported immediately at the first meeting
    put(file_of(self_.node), report_text({}));
  else
    report({});
  auto const start = fmt::format("{}-{}", run_, generation);
  // node 0 begins the run, unless it comes back to a run that another node leads
  bool const may_lead = self_.node == 0 && !(is_first && is_led_by_another());
  if (may_lead && is_first) static_cast<void>(::unlink((folder_ / "run").c_str()));
  auto start_name = start;
  bool is_leading = may_lead && claim_leadership(start);
  while (!(is_leading ? lead(start_name) : follow(start, start_name))) is_leading = !is_leading;
  if (std::error_code ignored; is_leading && !is_first)
    std::filesystem::remove_all(ranks_, ignored);  // no node uses the last start's folder any more
  ranks_ = folder_ / name_;
  pending_.clear();
  last_beat_ = steady_clock::now();
  auto const parsed = parse_start_name(name_);
  run_ = parsed.run;
  auto const own_entry = std::find(members_.begin(), members_.end(), self_.node);
  return {
      .folder = ranks_,
      .generation = parsed.start,
      .position = own_entry == members_.end() ? -1 : static_cast<int>(own_entry - members_.begin()),
      .nodes = static_cast<int>(members_.size())};
}

/// Whether another node leads a live run in this folder. The leader changes the file `run` in
/// answer to this node's file, or with its next beat. A run that node 0 leads is an earlier one of
/// this node.
bool node_meeting::is_led_by_another() {
  auto const read_leading_run = [&] {
    auto const answer = content_of(read(folder_ / "run"));
    return answer.is_null() || answer.at("leader") == self_.node ? std::string() : answer.dump();
  };
  auto const previous = read_leading_run();
  if (previous.empty()) return false;
  for (auto const deadline = steady_clock::now() + 2 * beat_interval_;
       steady_clock::now() < deadline; std::this_thread::sleep_for(poll_interval))
    if (auto const current = read_leading_run(); current != previous) return !current.empty();
  return false;
}

/// Whether this node has become the leader of the start `name`.
bool node_meeting::claim_leadership(std::string const& name) {
  auto const file = folder_ / ("lead-" + name);
  bool is_claimed = false;
  write_outage_.retry([&] {
    parallel::descriptor const file_handle(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    is_claimed = file_handle.get() >= 0;
    if (!is_claimed && errno != EEXIST) parallel::files::failure(file, "cannot be written");
  });
  return is_claimed;
}

void node_meeting::require_unique_number(bool is_unique) {
  if (is_unique) return;
  if (name_.empty()) report({});  // the other launch detects it by this
  parallel::fail(folder_.native(), ": another launch calls itself node ", self_.node,
                 " there; give each run a folder, and each machine its own number (--node)");
}

struct node_meeting::roll_call {
  std::vector<node_report> reports;  // of the present nodes, the leader's first: the reference
  std::vector<int> present;          // the nodes that have accepted the start's name
  std::vector<int> absent;           // the expected nodes that have not
  std::vector<int> unsealed;         // the expected nodes whose file has a wrong seal
};

/// Reads the files of all nodes for the start `name`, and their nonces into `nonces`.
node_meeting::roll_call node_meeting::call_roll(std::string const& name,
                                                std::vector<int> const& expected,
                                                std::vector<std::string>& nonces) {
  roll_call out;
  for (int node = 0; node < max_nodes(); ++node) {
    auto const found = read(file_of(node));
    bool const is_sealed = found && !found->text.is_null();
    if (is_sealed) nonces[static_cast<std::size_t>(node)] = nonce_of(found->text);
    // a leftover of an earlier start has not accepted this start's name
    if (is_sealed && (node == self_.node || value_of(found->text, "accepted", "taken") == name)) {
      out.present.push_back(node);
      out.reports.insert(node == self_.node ? out.reports.begin() : out.reports.end(),
                         report_of(*found));
    } else if (contains(expected, node)) {
      (found && !is_sealed ? out.unsealed : out.absent).push_back(node);
    }
  }
  return out;
}

/// Makes the folder of the start `name`. Its members are the first `count` of the present nodes,
/// this one among them: the leader runs, since it shows the others that the run is alive.
void node_meeting::open_start(std::string const& name, std::vector<int> const& present, int count) {
  write_outage_.retry([&] {
    if (::mkdir((folder_ / name).c_str(), 0700) != 0 && errno != EEXIST)
      parallel::files::failure(folder_ / name, "cannot create this folder");
  });
  members_.assign(present.begin(), present.begin() + count);
  if (!contains(members_, self_.node)) members_.back() = self_.node;
  name_ = name;
  leader_ = self_.node;
}

// The leader's part of a meeting: it names the run and waits until the other nodes have accepted
// the name. At the first meeting all nodes are expected; later the members of the last start, and a
// member that does not come is treated as gone. Returns false when another node has become the
// leader, as may happen when this node was stopped for a while.
bool node_meeting::lead(std::string const& name) {
  bool const is_first = name_.empty();
  auto const begin_time = steady_clock::now();
  auto last_valid_seal = begin_time;
  std::vector<std::string> nonces(static_cast<std::size_t>(max_nodes()));
  last_answer_.clear();
  auto expected = std::exchange(members_, {});
  if (is_first) {
    expected.resize(static_cast<std::size_t>(self_.nodes));
    std::iota(expected.begin(), expected.end(), 0);
  }
  // beats show the others that this node leads while it waits for them
  auto const current_beat_interval =
      std::max<seconds>(poll_interval, std::min(beat_interval_, absence_limit_ / 4));
  // a leader other than node 0 has already waited before it became the leader
  auto const absence_limit = self_.node == 0 ? absence_limit_ : absence_limit_ / 4;
  int beats = 0;
  auto const write_answer = [&](char const* phase, std::string const& problem) {
    auto const text =
        json{{"name", name},         {"nonces", nonces},    {"phase", phase}, {"problem", problem},
             {"leader", self_.node}, {"members", members_}, {"beat", beats}}
            .dump();
    if (std::exchange(last_answer_, text) != text)
      write_outage_.retry([&] { put(folder_ / "run", text); });
  };
  auto const refuse = [&](std::string const& problem) {
    write_answer("refused", problem);
    parallel::fail(problem);
  };
  for (;; std::this_thread::sleep_for(poll_interval)) {
    auto const roll = call_roll(name, expected, nonces);
    require_unique_number(nonces[static_cast<std::size_t>(self_.node)] == nonce_);
    auto const current_time = steady_clock::now();
    if (!is_first && is_later_start(content_of(read(folder_ / "run")), name)) {
      members_ = expected;
      return false;
    }
    int const node_count =
        running_node_count(static_cast<int>(roll.present.size()), self_.nodes, self_.node_multiple);
    // an outage that this node has seen may have delayed the others
    bool const has_waited =
        current_time - std::max(begin_time, read_outage_.last_failure()) > absence_limit;
    if ((roll.absent.empty() && roll.unsealed.empty()) ||
        (!is_first && has_waited && node_count >= self_.min_nodes)) {
      if (auto const problem = difference(roll.reports); !problem.empty()) refuse(problem);
      open_start(name, roll.present, node_count);
      write_answer("go", {});
      return true;
    }
    beats = static_cast<int>((current_time - begin_time) / current_beat_interval);
    write_answer("offered", {});
    if (roll.unsealed.empty()) last_valid_seal = current_time;
    if (current_time - last_valid_seal > stale_seal_limit)
      refuse(
          fmt::format("node {}: what it left in {} is not sealed with node {}'s key; give all "
                      "nodes one key",
                      fmt::join(roll.unsealed, ", "), folder_.native(), self_.node));
    if (current_time - begin_time > wait_limit_)
      refuse(fmt::format(
          "node {} has not come within {} s{}; start launch there with --node, and see that its "
          "machine has {}",
          fmt::join(roll.absent, ", "), wait_limit_.count(),
          is_first || self_.min_nodes == self_.nodes
              ? std::string()
              : fmt::format(", and the {} that are there are too few for --least {}",
                            roll.present.size(), self_.min_nodes),
          folder_.native()));
  }
}

// The part of the other nodes: a node finds its nonce in the leader's answer and accepts the name.
// Returns false when no node leads and this one has become the leader of the start `next` under the
// name `claimed_name`.
bool node_meeting::follow(std::string const& next, std::string& claimed_name) {
  bool const is_first = name_.empty();
  auto const begin_time = steady_clock::now();
  auto last_valid_seal = begin_time;
  auto last_offer_time = begin_time;
  auto const own_index = static_cast<std::size_t>(self_.node);
  std::string accepted, last_offer_text, last_go;
  int go_count = 0;  // different answers of a run that goes on without this node
  int attempts = 0;  // to lead the next start, each after as long a silence as the one before
  for (;; std::this_thread::sleep_for(poll_interval)) {
    auto const own_report = content_of(read(file_of(self_.node)));
    require_unique_number(own_report.is_null() || nonce_of(own_report) == nonce_);
    auto const content = content_of(read(folder_ / "run"));
    auto const current_time = steady_clock::now();
    if (!content.is_null()) {
      std::string const name = content.at("name");
      auto const& nonces = value_of(content, "nonces", "drawn");
      bool const has_own_nonce = nonces.size() > own_index && nonces[own_index] == nonce_;
      bool const is_started = content.at("phase") == "go";
      if (has_own_nonce && content.at("phase") == "refused")
        parallel::fail(content.at("problem").get<std::string>());
      if (is_started && std::exchange(last_go, content.dump()) != last_go) ++go_count;
      // a node that comes, or comes back, too late is a spare of the run that goes on without it
      if (is_started && name != name_ &&
          (has_own_nonce || (current_time - begin_time > absence_limit_ && go_count > 1))) {
        name_ = name;
        members_ = content.at("members").get<std::vector<int>>();
        if (!has_own_nonce) std::erase(members_, self_.node);
        leader_ = content.at("leader");
        return true;
      }
      if (has_own_nonce && !is_started && name != accepted) report(accepted = name);
      if (name != name_ && std::exchange(last_offer_text, content.dump()) != last_offer_text)
        last_offer_time = current_time;
    }
    // no node leads: one of the nodes of an earlier meeting becomes the leader
    if (!is_first &&
        current_time - std::max(last_offer_time, read_outage_.last_failure()) > absence_limit_) {
      claimed_name = attempts == 0 ? next : fmt::format("{}.{}", next, attempts);
      if (claim_leadership(claimed_name)) return false;
      ++attempts;  // the node that has claimed it first gets as long to answer
      last_offer_time = current_time;
    }
    auto const first_report = read(file_of(0));
    if (!first_report || !first_report->text.is_null() || !is_first) last_valid_seal = current_time;
    parallel::require(current_time - last_valid_seal < stale_seal_limit, "node 0: what it left in ",
                      folder_.native(), " is not sealed with node ", self_.node,
                      "'s key; give all nodes one key");
    parallel::require(current_time - begin_time < wait_limit_ || self_.node >= self_.nodes,
                      "node 0 has not answered within ", wait_limit_.count(),
                      " s; is it started with --nodes ", self_.nodes, ", and does its machine see ",
                      folder_.native(), "?");
  }
}

void node_meeting::announce_failure(node_failure const& failure) {
  announce(fmt::format("failed-{}", self_.node),
           json{{"node", failure.node}, {"code", failure.code}, {"message", failure.message}}
               // a rank's output may be invalid UTF-8, or be cut within a character
               .dump(-1, ' ', false, json::error_handler_t::replace));
}

void node_meeting::announce_leave() { announce(fmt::format("leaves-{}", self_.node), "{}"); }

void node_meeting::announce_done() { announce(fmt::format("done-{}", self_.node), "{}"); }

void node_meeting::announce(std::string const& file, std::string const& text) {
  if (max_nodes() == 1) return;
  pending_.insert_or_assign(file, text);
  write_pending();
}

void node_meeting::write_pending() {
  try {
    while (!pending_.empty() && write_outage_.try_once([&] {
      auto const& [file, text] = *pending_.begin();
      // where only the start's folder is gone, no node waits for this message
      if (parallel::files::exists(ranks_) || !parallel::files::exists(folder_))
        put(ranks_ / file, text);
    }))
      pending_.erase(pending_.begin());
  } catch (parallel::error const&) {
    pending_.clear();  // the message cannot be written; the others see the consequences
  }
}

std::optional<node_failure> node_meeting::remote_failure() {
  std::optional<node_failure> failure;
  static_cast<void>(read_outage_.try_once([&] {
    for (int const node : members_) {
      if (node == self_.node) continue;
      auto const report = content_of(read_sealed(ranks_ / fmt::format("failed-{}", node), key_));
      if (report.is_null()) continue;
      failure = {report.at("node"), report.at("code"), report.at("message")};
      return;
    }
    auto const current = content_of(read_sealed(folder_ / "run", key_));
    if (is_later_start(current, name_) && current.at("phase") == "go")
      failure = {current.at("leader"), static_cast<int>(exit_code::another_rank),
                 fmt::format("the run was started again without node {}, which was stalled or "
                             "could not be heard",
                             self_.node)};
  }));
  return failure;
}

bool node_meeting::are_too_few_left() {
  std::ptrdiff_t leaving = 0;
  if (max_nodes() > 1)
    read_outage_.retry([&] {
      leaving = std::ranges::count_if(members_, [&](int node) {
        return node != self_.node &&
               parallel::files::exists(ranks_ / fmt::format("leaves-{}", node));
      });
    });
  return max_nodes() - leaving < self_.min_nodes;
}

bool node_meeting::are_all_done() {
  if (max_nodes() == 1) return true;
  bool is_done = false;
  static_cast<void>(read_outage_.try_once([&] {
    if (leads()) return void(is_done = unfinished_nodes().empty());
    // the leader removes this folder last, unless the run has gone on to another start
    auto const answer = content_of(read_sealed(folder_ / "run", key_));
    bool const is_running_on = !answer.is_null() && parse_start_name(answer.at("name")).run == run_;
    is_done = !parallel::files::exists(ranks_) && !is_running_on;
  }));
  return is_done;
}

std::vector<int> node_meeting::unfinished_nodes() const {
  std::vector<int> out;
  for (int const node : members_)
    if (node != self_.node && !parallel::files::exists(ranks_ / fmt::format("done-{}", node)))
      out.push_back(node);
  if (out.empty() && !leads()) out.push_back(leader_);  // the leader still has to clean up
  return out;
}

void node_meeting::beat() {
  write_pending();
  auto const time = steady_clock::now();
  if (max_nodes() == 1 || !leads() || time - last_beat_ < beat_interval_) return;
  auto text = json::parse(last_answer_);
  text["beat"] = ++beats_;
  try {
    if (write_outage_.try_once([&] {
          if (!is_later_start(content_of(read_sealed(folder_ / "run", key_)), name_))
            put(folder_ / "run", text.dump());
        }))
      last_beat_ = time;
  } catch (parallel::error const&) {
    last_beat_ = time;  // running ranks do not need the beat
  }
}

bool node_meeting::has_new_meeting() {
  if (remote_failure()) return true;
  json answer;
  auto const time = steady_clock::now();
  if (read_outage_.try_once([&] { answer = content_of(read_sealed(folder_ / "run", key_)); })) {
    auto const text = answer.dump();
    if (std::exchange(last_answer_, text) != text) last_beat_ = time;
    parallel::require(
        time - std::max(last_beat_, read_outage_.last_failure()) < wait_limit_, folder_.native(),
        ": the run that this node waits to take part in has given no sign of life for ",
        wait_limit_.count(), " s; start it again");
  }
  return !answer.is_null() && answer.at("name") != name_;
}

void node_meeting::clean() {
  if (!leads()) return;
  write_outage_.retry([&] {
    auto const run = folder_ / "run";
    if (::unlink(run.c_str()) != 0 && errno != ENOENT)
      parallel::files::failure(run, "cannot be removed");
  });
  for (int node = 0; node < max_nodes(); ++node) static_cast<void>(::unlink(file_of(node).c_str()));
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    auto const name = entry.path().filename().string();
    // this includes files of starts that never began
    if (name.starts_with("lead-") || (name.starts_with(run_ + '-') && name != name_))
      std::filesystem::remove_all(entry.path(), ignored);
  }
  if (!ranks_.empty()) write_outage_.retry([&] { parallel::files::remove_tree(ranks_); });
}

}  // namespace apps
