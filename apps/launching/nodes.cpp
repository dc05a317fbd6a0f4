#include "launching/nodes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

#include "launching/node_report_json.hpp"
#include "launching/sealed_file.hpp"
#include "launching/start_name.hpp"
#include "support/exit_code.hpp"

namespace apps {

namespace {

using json = nlohmann::json;
using std::chrono::steady_clock;

constexpr auto pause = std::chrono::milliseconds(50);
/// How often a leader says that its run lives.
constexpr auto a_beat = std::chrono::seconds(5);
/// How long a file with a wrong seal may be one that an earlier run has left.
constexpr auto wrong_seal_may_be_old = std::chrono::seconds(5);

double now() {
  timespec time{};
  static_cast<void>(::clock_gettime(CLOCK_REALTIME, &time));
  return seconds_of(time);
}

}  // namespace

node_meeting::node_meeting(std::filesystem::path folder, run_key key, node_report self,
                           std::chrono::seconds wait, std::chrono::seconds gone)
    : folder_(std::move(folder)),
      key_(std::move(key)),
      self_(std::move(self)),
      wait_(wait),
      gone_(gone),
      reading_(wait),
      writing_(wait),
      run_(self_.node == 0 ? random_name() : std::string()) {}

std::filesystem::path node_meeting::file_of(int node) const {
  return folder_ / fmt::format("node-{}", node);
}

void node_meeting::put(std::filesystem::path const& file, std::string const& text) const {
  // its number: two launches may call themselves one node, of which they are to be told
  write_sealed(file, key_, drawn_, text);
}

void node_meeting::write(std::filesystem::path const& file, std::string const& text) {
  writing_.insist([&] { put(file, text); });
}

std::optional<sealed_text> node_meeting::read(std::filesystem::path const& file) {
  std::optional<sealed_text> found;
  reading_.insist([&] { found = read_sealed(file, key_); });
  return found;
}

std::string node_meeting::report_text(std::string const& taken) const {
  auto out = json_of(self_);
  out.update({{"time", now()}, {"drawn", drawn_}, {"taken", taken}});
  return out.dump();
}

void node_meeting::report(std::string const& taken) {
  // with the time of each try
  writing_.insist([&] { put(file_of(self_.node), report_text(taken)); });
}

node_place node_meeting::meet(int generation) {
  drawn_ = random_name();
  if (ranks_.empty())  // what this node may not do there is said now
    put(file_of(self_.node), report_text({}));
  else
    report({});
  auto const before = ranks_;
  auto const next = fmt::format("{}-{}", run_, generation);
  bool const first = before.empty();
  // node 0 begins the run, unless it comes back to one that another leads
  bool const may_lead = self_.node == 0 && !(first && another_leads());
  if (may_lead && first) static_cast<void>(::unlink((folder_ / "run").c_str()));
  auto name = next;
  bool leads = may_lead && takes_the_lead(next);
  while (!(leads ? lead(name, first) : follow(next, name))) leads = !leads;
  if (std::error_code left; leads && !before.empty())
    std::filesystem::remove_all(before, left);  // nobody is there any more
  ranks_ = folder_ / name_;
  untold_.clear();
  last_beat_ = steady_clock::now();
  auto const parts = parts_of(name_);
  run_ = parts.run;
  auto const mine = std::find(members_.begin(), members_.end(), self_.node);
  return {.folder = ranks_,
          .generation = parts.start,
          .position = mine == members_.end() ? -1 : static_cast<int>(mine - members_.begin()),
          .nodes = static_cast<int>(members_.size())};
}

/// Whether a run lives here that another node leads: what that says in `run` changes when this node
/// has left its file, or with a beat. A run of node 0 is this node's own earlier one.
bool node_meeting::another_leads() {
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
  bool takes = false;
  writing_.insist([&] {
    parallel::descriptor const made(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    takes = made.get() >= 0;
    if (!takes && errno != EEXIST) parallel::files::failure(file, "cannot be written");
  });
  return takes;
}

// The leader: names the run, and waits until the others have taken the name. At the `first` meeting
// all nodes come; later those that have run last, of which who does not come is gone. Returns false
// when another has taken the lead, as it may where this node stood still.
bool node_meeting::lead(std::string const& name, bool first) {
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
    if (!alone && first) report({});  // the other hears it
    parallel::require(alone, folder_.native(), ": another launch calls itself node ", self_.node,
                      " there; give each run a folder, and each machine its own number (--node)");
    auto const time = steady_clock::now();
    int const run = nodes_that_run(static_cast<int>(there.size()), self_.nodes, self_.multiple);
    bool const all = missing.empty() && wrong.empty();
    // another than node 0 leads when it has waited for that already
    auto const patience = self_.node == 0 ? steady_clock::duration(gone_) : gone_ / 4;
    // what hinders this node may hinder the others
    bool const waited = time - std::max(begin, reading_.last()) > patience;
    if (!first && is_past(read(folder_ / "run"), name)) {
      members_ = expected;
      return false;
    }
    if (all || (!first && waited && run >= self_.least)) {
      if (auto const problem = difference(reports); !problem.empty()) refuse(problem);
      writing_.insist([&] {
        if (::mkdir((folder_ / name).c_str(), 0700) != 0 && errno != EEXIST)
          parallel::files::failure(folder_ / name, "cannot create this folder");
      });
      members_.assign(there.begin(), there.begin() + run);
      if (std::find(members_.begin(), members_.end(), self_.node) == members_.end())
        members_.back() = self_.node;  // who leads runs, and so tells that the run lives
      answer("go", {});
      name_ = name;
      leader_ = self_.node;
      return true;
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
// nobody leads, and this node has taken the lead of the start `next`, by the name `taken_lead`.
bool node_meeting::follow(std::string const& next, std::string& taken_lead) {
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
    if (!alone && before.empty()) report({});  // the other hears it
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
      if (knows_us && !goes && name != taken) report(taken = name);
      if (name != before && std::exchange(offer, answer->text.dump()) != offer) last_offer = time;
    }
    // nobody leads: one of those that have met before
    if (!before.empty() && time - std::max(last_offer, reading_.last()) > gone_) {
      taken_lead = attempts == 0 ? next : fmt::format("{}.{}", next, attempts);
      if (takes_the_lead(taken_lead)) return false;
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
  tell(fmt::format("failed-{}", self_.node),
       json{{"node", what.node}, {"code", what.code}, {"message", what.message}}
           // what a rank has printed may be no UTF-8, or be cut within a character
           .dump(-1, ' ', false, json::error_handler_t::replace));
}

void node_meeting::tell_leave() { tell(fmt::format("leaves-{}", self_.node), "{}"); }

void node_meeting::tell_done() { tell(fmt::format("done-{}", self_.node), "{}"); }

void node_meeting::tell(std::string const& file, std::string const& text) {
  if (most_nodes() == 1) return;
  untold_.insert_or_assign(file, text);
  tell_the_rest();
}

void node_meeting::tell_the_rest() {
  try {
    while (!untold_.empty() && writing_.passes([&] {
      auto const& [file, text] = *untold_.begin();
      // where that folder is gone, and not all with it, nobody waits to hear it
      if (parallel::files::exists(ranks_) || !parallel::files::exists(folder_))
        put(ranks_ / file, text);
    }))
      untold_.erase(untold_.begin());
  } catch (parallel::error const&) {
    untold_.clear();  // it cannot be told; the others see what comes of it
  }
}

std::optional<node_failure> node_meeting::failure_elsewhere() {
  std::optional<node_failure> failure;
  static_cast<void>(reading_.passes([&] {
    for (int const node : members_) {
      if (node == self_.node) continue;
      auto const told = read_sealed(ranks_ / fmt::format("failed-{}", node), key_);
      if (!told || told->text.is_null()) continue;
      failure = {told->text.at("node"), told->text.at("code"), told->text.at("message")};
      return;
    }
    auto const now = read_sealed(folder_ / "run", key_);
    if (is_past(now, name_) && now->text.at("phase") == "go")
      failure = {now->text.at("leader"), static_cast<int>(exit_code::another_rank),
                 fmt::format("the run was started again without node {}, which stood still or "
                             "could not be heard",
                             self_.node)};
  }));
  return failure;
}

bool node_meeting::are_too_few_left() {
  int left = most_nodes();
  if (left > 1)
    reading_.insist([&] {
      left = most_nodes();
      for (int const node : members_)
        if (node != self_.node && parallel::files::exists(ranks_ / fmt::format("leaves-{}", node)))
          --left;
    });
  return left < self_.least;
}

bool node_meeting::all_done() {
  if (most_nodes() == 1) return true;
  bool done = false;
  static_cast<void>(reading_.passes([&] {
    if (leads()) return void(done = not_done().empty());
    // the last that the leader removes, unless the run has only left this start behind
    auto const said = read_sealed(folder_ / "run", key_);
    bool const goes_on =
        said && !said->text.is_null() && parts_of(said->text.at("name")).run == run_;
    done = !parallel::files::exists(ranks_) && !goes_on;
  }));
  return done;
}

std::vector<int> node_meeting::not_done() const {
  std::vector<int> out;
  for (int const node : members_)
    if (node != self_.node && !parallel::files::exists(ranks_ / fmt::format("done-{}", node)))
      out.push_back(node);
  if (out.empty() && !leads()) out.push_back(leader_);  // which is to remove what it has left
  return out;
}

void node_meeting::beat() {
  tell_the_rest();
  auto const now = steady_clock::now();
  if (most_nodes() == 1 || !leads() || now - last_beat_ < a_beat) return;
  auto text = json::parse(said_);
  text["beat"] = ++beats_;
  try {
    if (writing_.passes([&] {
          if (!is_past(read_sealed(folder_ / "run", key_), name_))
            put(folder_ / "run", text.dump());
        }))
      last_beat_ = now;
  } catch (parallel::error const&) {
    last_beat_ = now;  // ranks that run need it not
  }
}

bool node_meeting::meets_again() {
  if (failure_elsewhere()) return true;
  std::optional<sealed_text> answer;
  auto const now = steady_clock::now();
  if (reading_.passes([&] { answer = read_sealed(folder_ / "run", key_); })) {
    auto const text = answer ? answer->text.dump() : std::string();
    if (std::exchange(said_, text) != text) last_beat_ = now;
    parallel::require(
        now - std::max(last_beat_, reading_.last()) < wait_, folder_.native(),
        ": the run that this node waits to take part in has given no sign of life for ",
        wait_.count(), " s; start it again");
  }
  return answer && !answer->text.is_null() && answer->text.at("name") != name_;
}

void node_meeting::clean() {
  if (!leads()) return;
  writing_.insist([&] {
    auto const run = folder_ / "run";
    if (::unlink(run.c_str()) != 0 && errno != ENOENT)
      parallel::files::failure(run, "cannot be removed");
  });
  for (int node = 0; node < most_nodes(); ++node)
    static_cast<void>(::unlink(file_of(node).c_str()));
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    auto const name = entry.path().filename().string();
    // of starts that were not led to their beginning, too
    if (name.starts_with("lead-") || (name.starts_with(run_ + '-') && name != name_))
      std::filesystem::remove_all(entry.path(), ignored);
  }
  if (!ranks_.empty()) writing_.insist([&] { parallel::files::remove_tree(ranks_); });
}

}  // namespace apps
