#include "launching/nodes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace apps {

namespace {

using json = nlohmann::json;
using std::chrono::steady_clock;

constexpr auto pause = std::chrono::milliseconds(50);
/// How often a leader says that its run lives.
constexpr auto a_beat = std::chrono::seconds(5);
/// How long a file with a wrong seal may be one that an earlier run has left.
constexpr auto wrong_seal_may_be_old = std::chrono::seconds(5);

std::string name_of(node_report const& one) {
  return fmt::format("node {} ({})", one.node, one.host);
}

double seconds_of(timespec const& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double now() {
  timespec time{};
  static_cast<void>(::clock_gettime(CLOCK_REALTIME, &time));
  return seconds_of(time);
}

node_report report_of(json const& said, double written) {
  node_report out;
  out.node = said.at("node");
  out.nodes = said.at("nodes");
  out.ranks = said.at("ranks");
  out.restarts = said.at("restarts");
  out.spares = said.at("spares");
  out.least = said.at("least");
  out.multiple = said.at("multiple");
  out.host = said.at("host");
  out.program = said.at("program");
  out.program_hash = said.at("program_hash");
  out.arguments = said.at("arguments");
  out.files = said.at("files");
  out.clock = said.at("time").get<double>() - written;
  return out;
}

/// In what two nodes differ.
std::string difference_of(node_report const& first, node_report const& other) {
  auto const numbers = [&](char const* what, int a, int b) {
    return fmt::format("{} has {} {}, {} {}; start all with the same", name_of(other), what, b,
                       name_of(first), a);
  };
  if (first.nodes != other.nodes) return numbers("--nodes", first.nodes, other.nodes);
  if (first.ranks != other.ranks) return numbers("-n", first.ranks, other.ranks);
  if (first.restarts != other.restarts)
    return numbers("--restarts", first.restarts, other.restarts);
  if (first.spares != other.spares) return numbers("--spares", first.spares, other.spares);
  if (first.least != other.least) return numbers("--least", first.least, other.least);
  if (first.multiple != other.multiple)
    return numbers("--multiple", first.multiple, other.multiple);
  if (first.program_hash != other.program_hash)
    return fmt::format(
        "{} runs another program than {}: {} is not the same file as {}; install "
        "one build on all nodes",
        name_of(other), name_of(first), other.program, first.program);
  auto const said = [](node_report const& one, std::size_t i) {
    return i < one.arguments.size() ? "'" + one.arguments[i] + "'" : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(first.arguments.size(), other.arguments.size()); ++i)
    if (said(first, i) != said(other, i))
      return fmt::format(
          "{} runs the program with other arguments than {}: {}, not {}; start all "
          "with the same",
          name_of(other), name_of(first), said(other, i), said(first, i));
  for (auto const& [file, hash] : first.files) {
    auto const there = other.files.find(file);
    if (there == other.files.end() || there->second != hash)
      return fmt::format("{} has another {} than {}; give all nodes the same configuration",
                         name_of(other), file, name_of(first));
  }
  double const ahead = other.clock - first.clock;
  if (std::abs(ahead) > clocks_may_differ)
    return fmt::format(
        "the clock of {} is {:.0f} s {} that of {}; set the machines' clocks "
        "(chrony, ntp)",
        name_of(other), std::abs(ahead), ahead > 0 ? "ahead of" : "behind", name_of(first));
  return {};
}

}  // namespace

std::string difference(std::span<node_report const> by_node) {
  for (auto const& one : by_node.subspan(1))
    if (auto const problem = difference_of(by_node.front(), one); !problem.empty()) return problem;
  return {};
}

/// What a file says, and when it was written by the clock of the folder's machine.
struct node_meeting::sealed_text {
  json text;  // null: its seal is wrong
  double written = 0;
};

node_meeting::node_meeting(std::filesystem::path folder, run_key key, node_report self,
                           std::chrono::seconds wait, std::chrono::seconds gone)
    : folder_(std::move(folder)),
      key_(std::move(key)),
      self_(std::move(self)),
      wait_(wait),
      gone_(gone),
      run_(self_.node == 0 ? random_name() : std::string()) {}

std::filesystem::path node_meeting::file_of(int node) const {
  return folder_ / fmt::format("node-{}", node);
}

void node_meeting::write(std::filesystem::path const& file, std::string const& text) const {
  // of this meeting alone: two launches may call themselves one node, of which they are to be told
  auto const part = file.string() + "." + drawn_ + ".part";
  static_cast<void>(::unlink(part.c_str()));
  {
    parallel::descriptor const out(
        ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (out.get() < 0) parallel::files::failure(part, "cannot be written");
    auto const whole = key_.seal(file.filename().string() + '\n' + text) + '\n' + text;
    if (::write(out.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()) ||
        ::fsync(out.get()) != 0)
      parallel::files::failure(part, "cannot be written");
  }
  parallel::files::rename(part, file);
}

std::optional<node_meeting::sealed_text> node_meeting::read(
    std::filesystem::path const& file) const {
  parallel::descriptor const in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (in.get() < 0) {
    if (errno != ENOENT) parallel::files::failure(file, "cannot be read");
    return std::nullopt;
  }
  struct ::stat status {};
  std::string whole(std::size_t{1} << 20, '\0');
  auto const got = ::read(in.get(), whole.data(), whole.size());
  if (got < 0 || ::fstat(in.get(), &status) != 0) parallel::files::failure(file, "cannot be read");
  whole.resize(static_cast<std::size_t>(got));
  auto const line = whole.find('\n');
  if (line == std::string::npos) return sealed_text{};
  auto const text = whole.substr(line + 1);
  if (whole.substr(0, line) != key_.seal(file.filename().string() + '\n' + text))
    return sealed_text{};
  return sealed_text{json::parse(text), seconds_of(status.st_mtim)};
}

std::string node_meeting::report_text(std::string const& taken) const {
  return json{{"node", self_.node},
              {"nodes", self_.nodes},
              {"ranks", self_.ranks},
              {"restarts", self_.restarts},
              {"spares", self_.spares},
              {"least", self_.least},
              {"multiple", self_.multiple},
              {"host", self_.host},
              {"program", self_.program},
              {"program_hash", self_.program_hash},
              {"arguments", self_.arguments},
              {"files", self_.files},
              {"time", now()},
              {"drawn", drawn_},
              {"taken", taken}}
      .dump();
}

node_place node_meeting::meet(int generation) {
  drawn_ = random_name();
  write(file_of(self_.node), report_text({}));
  auto const before = ranks_;
  auto const next = fmt::format("{}-{}", run_, generation);
  bool const first = before.empty();
  // node 0 begins the run, unless it comes back to one that another leads
  bool const may_lead = self_.node == 0 && !(first && another_leads());
  if (may_lead && first) static_cast<void>(::unlink((folder_ / "run").c_str()));
  if ((may_lead && takes_the_lead(next)) || !follow(next)) {
    leader_ = self_.node;
    lead(next, first);
    if (!before.empty()) parallel::files::remove_tree(before);  // nobody is there any more
  }
  ranks_ = folder_ / name_;
  last_beat_ = steady_clock::now();
  auto const hyphen = name_.rfind('-');
  run_ = name_.substr(0, hyphen);
  auto const mine = std::find(members_.begin(), members_.end(), self_.node);
  return {.folder = ranks_,
          .generation = std::atoi(name_.c_str() + hyphen + 1),
          .position = mine == members_.end() ? -1 : static_cast<int>(mine - members_.begin()),
          .nodes = static_cast<int>(members_.size())};
}

/// Whether a run lives here that another node leads: what that says in `run` changes when this node
/// has left its file, or with a beat. A run of node 0 is this node's own earlier one.
bool node_meeting::another_leads() const {
  auto const led = [&]() -> std::string {
    auto const found = read(folder_ / "run");
    if (!found || found->text.is_null() || found->text.at("leader") == self_.node) return {};
    return found->text.dump();
  };
  auto const before = led();
  if (before.empty()) return false;
  for (auto const until = steady_clock::now() + 2 * a_beat; steady_clock::now() < until;
       std::this_thread::sleep_for(pause))
    if (auto const now = led(); now != before) return !now.empty();
  return false;
}

/// Whether this node is the one that leads the start `name`.
bool node_meeting::takes_the_lead(std::string const& name) {
  auto const file = folder_ / ("lead-" + name);
  parallel::descriptor const made(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (made.get() < 0 && errno != EEXIST) parallel::files::failure(file, "cannot be written");
  return made.get() >= 0;
}

// The leader: names the run, and waits until the others have taken the name. At the `first` meeting
// all nodes come; later those that have run last, of which who does not come is gone.
void node_meeting::lead(std::string const& name, bool first) {
  auto const begin = steady_clock::now();
  auto last_right = begin;
  std::vector<std::string> drawn(static_cast<std::size_t>(most_nodes()));
  said_.clear();
  auto expected = std::exchange(members_, {});
  if (first) {
    expected.resize(static_cast<std::size_t>(self_.nodes));
    std::iota(expected.begin(), expected.end(), 0);
  }
  auto const is_expected = [&](int node) {
    return std::find(expected.begin(), expected.end(), node) != expected.end();
  };
  // while this node waits for others, they know that it leads
  auto const often = std::max<steady_clock::duration>(
      pause, std::min<steady_clock::duration>(a_beat, std::chrono::milliseconds(gone_) / 4));
  int beats = 0;
  auto const answer = [&](char const* phase, std::string const& problem) {
    auto const text =
        json{{"name", name},         {"drawn", drawn},      {"phase", phase}, {"problem", problem},
             {"leader", self_.node}, {"members", members_}, {"beat", beats}}
            .dump();
    if (text != said_) write(folder_ / "run", said_ = text);
  };
  auto const refuse = [&](std::string const& problem) {
    answer("refused", problem);
    parallel::fail(problem);
  };
  for (;; std::this_thread::sleep_for(pause)) {
    std::vector<node_report> reports;  // this node's first: what the others are compared with
    std::vector<int> missing, wrong, there;
    for (int node = 0; node < most_nodes(); ++node) {
      auto const found = read(file_of(node));
      if (!found || found->text.is_null()) {
        if (is_expected(node)) (found ? wrong : missing).push_back(node);
        continue;
      }
      drawn[static_cast<std::size_t>(node)] = found->text.at("drawn");
      // what an earlier start has left takes no name of this one
      if (node != self_.node && found->text.at("taken") != name) {
        if (is_expected(node)) missing.push_back(node);
        continue;
      }
      there.push_back(node);
      reports.insert(node == self_.node ? reports.begin() : reports.end(),
                     report_of(found->text, found->written));
    }
    bool const alone = drawn[static_cast<std::size_t>(self_.node)] == drawn_;
    if (!alone && first) write(file_of(self_.node), report_text({}));  // the other hears it
    parallel::require(alone, folder_.native(), ": another launch calls itself node ", self_.node,
                      " there; give each run a folder, and each machine its own number (--node)");
    auto const time = steady_clock::now();
    int const run = nodes_that_run(static_cast<int>(there.size()), self_.nodes, self_.multiple);
    bool const all = missing.empty() && wrong.empty();
    // another than node 0 leads when it has waited for that already
    auto const patience = self_.node == 0 ? steady_clock::duration(gone_) : gone_ / 4;
    if (all || (!first && time - begin > patience && run >= self_.least)) {
      if (auto const problem = difference(reports); !problem.empty()) refuse(problem);
      if (::mkdir((folder_ / name).c_str(), 0700) != 0)
        parallel::files::failure(folder_ / name, "cannot create this folder");
      members_.assign(there.begin(), there.begin() + run);
      if (std::find(members_.begin(), members_.end(), self_.node) == members_.end())
        members_.back() = self_.node;  // who leads runs, and so tells that the run lives
      answer("go", {});
      name_ = name;
      return;
    }
    beats = static_cast<int>((time - begin) / often);
    answer("offered", {});
    if (wrong.empty()) last_right = time;
    if (time - last_right > wrong_seal_may_be_old)
      refuse(
          fmt::format("node {}: what it left in {} is not sealed with node {}'s key; give all "
                      "nodes one key",
                      fmt::join(wrong, ", "), folder_.native(), self_.node));
    if (time - begin > wait_)
      refuse(fmt::format(
          "node {} has not come within {} s{}; start launch there with --node, and see that its "
          "machine has {}",
          fmt::join(missing, ", "), wait_.count(),
          first || self_.least == self_.nodes
              ? std::string()
              : fmt::format(", and the {} that are there are too few for --least {}", there.size(),
                            self_.least),
          folder_.native()));
  }
}

// Another node: finds its number in the leader's answer, and takes the name. Returns false when
// nobody leads, and this node has taken the lead of the start `next`.
bool node_meeting::follow(std::string const& next) {
  auto const begin = steady_clock::now();
  auto last_right = begin;
  auto last_offer = begin;
  auto const mine = static_cast<std::size_t>(self_.node);
  auto const before = name_;
  std::string taken, offer, going;
  int signs = 0;     // of life, from a run that goes on without this node
  int attempts = 0;  // to lead the next start, each after as long a silence
  for (;; std::this_thread::sleep_for(pause)) {
    auto const own = read(file_of(self_.node));
    bool const alone = !own || own->text.is_null() || own->text.at("drawn") == drawn_;
    if (!alone && before.empty())
      write(file_of(self_.node), report_text({}));  // the other hears it
    parallel::require(alone, folder_.native(), ": another launch calls itself node ", self_.node,
                      " there; give each machine its own number (--node)");
    auto const answer = read(folder_ / "run");
    auto const time = steady_clock::now();
    if (answer && !answer->text.is_null()) {
      auto const& said = answer->text;
      std::string const name = said.at("name");
      bool const knows_us = said.at("drawn").size() > mine && said.at("drawn")[mine] == drawn_;
      bool const goes = said.at("phase") == "go";
      if (knows_us && said.at("phase") == "refused")
        parallel::fail(said.at("problem").get<std::string>());
      if (goes && std::exchange(going, answer->text.dump()) != going) ++signs;
      // one that came too late, or back too late, is a spare of what goes on without it
      if (goes && name != before && (knows_us || (time - begin > gone_ && signs > 1))) {
        name_ = name;
        members_ = said.at("members").get<std::vector<int>>();
        if (!knows_us) std::erase(members_, self_.node);
        leader_ = said.at("leader");
        return true;
      }
      if (knows_us && !goes && name != taken) write(file_of(self_.node), report_text(taken = name));
      if (name != before && std::exchange(offer, answer->text.dump()) != offer) last_offer = time;
    }
    // nobody leads: one of those that have met before
    if (!before.empty() && time - last_offer > gone_) {
      if (takes_the_lead(attempts == 0 ? next : fmt::format("{}.{}", next, attempts))) return false;
      ++attempts;  // whoever has taken it before is given as long to say so
      last_offer = time;
    }
    auto const first = read(file_of(0));
    if (!first || !first->text.is_null() || !before.empty()) last_right = time;
    parallel::require(time - last_right < wrong_seal_may_be_old, "node 0: what it left in ",
                      folder_.native(), " is not sealed with node ", self_.node,
                      "'s key; give all nodes one key");
    parallel::require(time - begin < wait_ || self_.node >= self_.nodes,
                      "node 0 has not answered within ", wait_.count(),
                      " s; is it started with --nodes ", self_.nodes, ", and does its machine see ",
                      folder_.native(), "?");
  }
}

void node_meeting::tell_failure(node_failure const& what) {
  if (most_nodes() > 1 && parallel::files::exists(ranks_))
    write(ranks_ / fmt::format("failed-{}", self_.node),
          json{{"node", what.node}, {"code", what.code}, {"message", what.message}}.dump());
}

void node_meeting::tell_done() {
  if (most_nodes() > 1) write(ranks_ / fmt::format("done-{}", self_.node), "{}");
}

std::optional<node_failure> node_meeting::failure_elsewhere() const {
  for (int const node : members_) {
    if (node == self_.node) continue;
    auto const told = read(ranks_ / fmt::format("failed-{}", node));
    if (told && !told->text.is_null())
      return node_failure{told->text.at("node"), told->text.at("code"), told->text.at("message")};
  }
  return std::nullopt;
}

bool node_meeting::all_done() const {
  if (most_nodes() == 1) return true;
  if (!leads()) return !parallel::files::exists(ranks_);  // the last that the leader removes
  return std::all_of(members_.begin(), members_.end(), [&](int node) {
    return node == self_.node || parallel::files::exists(ranks_ / fmt::format("done-{}", node));
  });
}

void node_meeting::beat() {
  auto const now = steady_clock::now();
  if (most_nodes() == 1 || !leads() || now - last_beat_ < a_beat) return;
  last_beat_ = now;
  auto text = json::parse(said_);
  text["beat"] = ++beats_;
  write(folder_ / "run", text.dump());
}

bool node_meeting::meets_again() {
  if (failure_elsewhere()) return true;
  auto const answer = read(folder_ / "run");
  auto const text = answer ? answer->text.dump() : std::string();
  auto const now = steady_clock::now();
  if (std::exchange(said_, text) != text) last_beat_ = now;
  parallel::require(now - last_beat_ < wait_, folder_.native(),
                    ": the run that this node waits to take part in has given no sign of life for ",
                    wait_.count(), " s; start it again");
  return answer && !answer->text.is_null() && answer->text.at("name") != name_;
}

void node_meeting::clean() {
  if (!leads()) return;
  static_cast<void>(::unlink((folder_ / "run").c_str()));
  for (int node = 0; node < most_nodes(); ++node)
    static_cast<void>(::unlink(file_of(node).c_str()));
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator(folder_, ignored))
    if (entry.path().filename().native().starts_with("lead-"))
      static_cast<void>(::unlink(entry.path().c_str()));
  if (!ranks_.empty()) parallel::files::remove_tree(ranks_);
}

}  // namespace apps
