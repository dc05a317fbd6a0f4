// Durability at a loss of power: every byte of a checkpoint is on disk before the checkpoint gets
// its name, and the name is on disk before anything relies on it. The tests watch the system calls,
// and load each state that a disk may have after each of them.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>
#include <parallel/support/local_cluster.hpp>

namespace save_durability_test {
namespace fs = std::filesystem;
using parallel::index;

/// The file or folder behind a descriptor.
std::string path_of(int file) { return fs::read_symlink(parallel::concat("/proc/self/fd/", file)); }

/// A file, link or folder as programs see it, and the state of it that is known to be on disk.
struct node {
  using entries = std::map<std::string, std::shared_ptr<node>>;
  bool is_folder = false;
  std::string link;
  std::string data, data_on_disk;
  entries names, names_on_disk;
};

/// Decides which unflushed changes are on disk after a loss of power.
struct loss {
  std::function<bool()> keeps_name;  // whether a change of a folder is on disk
  bool keeps_data = false;
};

/// A folder whose changes by all threads are recorded. `after_each` must not change the folder.
class watched_folder {
 public:
  explicit watched_folder(fs::path root, std::function<void()> after_each)
      : root_(std::move(root)), after_each_(std::move(after_each)) {
    top_.is_folder = true;
  }

  /// Calls change() and then records the change; one thread at a time.
  template <class Change, class Note>
  auto make_and_note(std::string const& path, Change const& change, Note const& note) {
    if (!path.starts_with(root_.native())) return change();
    std::scoped_lock const one_at_a_time(mutex_);
    auto const result = change();
    if (result >= 0) note(*this);
    return result;
  }

  void write(std::string const& path, std::string_view bytes, std::size_t offset) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    auto& file = parent->names[to_string(path)];
    if (!file) file = std::make_shared<node>();
    if (file->data.size() < offset + bytes.size()) file->data.resize(offset + bytes.size());
    file->data.replace(offset, bytes.size(), bytes);
    after_each_();
  }
  void flush(std::string const& path) {
    auto* const found = node_at(path);
    if (found == nullptr) return;
    found->data_on_disk = found->data;
    found->names_on_disk = found->names;
    after_each_();
  }
  void make(std::string const& path, std::string link) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    auto new_node = std::make_shared<node>();
    new_node->is_folder = link.empty();
    new_node->link = std::move(link);
    parent->names[to_string(path)] = new_node;
    after_each_();
  }
  void rename(std::string const& from, std::string const& to, bool exchange) {
    auto* const a = folder_of(from);
    auto* const b = folder_of(to);
    if (a == nullptr || b == nullptr) return;
    std::swap(a->names[to_string(from)], b->names[to_string(to)]);
    if (!exchange) a->names.erase(to_string(from));
    after_each_();
  }
  void remove(std::string const& path) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    parent->names.erase(to_string(path));
    after_each_();
  }

  /// Creates in `path` a state that the disk may have if the power is lost now.
  void write_surviving_state(fs::path const& path, loss const& lost) const {
    write_folder(top_, path, lost);
  }

 private:
  [[nodiscard]] static std::string to_string(fs::path const& path) { return path.filename(); }
  [[nodiscard]] node* node_at(fs::path const& path) {
    if (path == root_) return &top_;
    auto* const parent = folder_of(path);
    if (parent == nullptr) return nullptr;
    auto const found = parent->names.find(path.filename());
    return found == parent->names.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] node* folder_of(fs::path const& path) {
    if (!path.native().starts_with(root_.native() + "/")) return nullptr;
    return node_at(path.parent_path());
  }
  static void write_folder(node const& folder, fs::path const& path, loss const& lost) {
    std::set<std::string> all_names;
    for (auto const& [name, child] : folder.names) all_names.insert(name);
    for (auto const& [name, child] : folder.names_on_disk) all_names.insert(name);
    for (auto const& name : all_names) {
      auto const& names_synced = folder.names_on_disk;
      auto const& names_now = folder.names;
      auto const find = [&](node::entries const& entries_to_search) {
        auto const found = entries_to_search.find(name);
        return found == entries_to_search.end() ? nullptr : found->second.get();
      };
      auto const* const child = find(names_synced) == find(names_now) || lost.keeps_name()
                                    ? find(names_now)
                                    : find(names_synced);
      if (child == nullptr) continue;
      if (!child->link.empty()) {
        fs::create_symlink(child->link, path / name);
      } else if (child->is_folder) {
        fs::create_directory(path / name);
        write_folder(*child, path / name, lost);
      } else {
        std::ofstream(path / name, std::ios::binary)
            << (lost.keeps_data ? child->data : child->data_on_disk);
      }
    }
  }

  fs::path root_;
  std::function<void()> after_each_;
  std::mutex mutex_;
  node top_;
};

/// The log of this thread's flushes; null for none.
thread_local std::vector<std::string>* flushed = nullptr;
/// The record of all threads' changes; null for none.
std::atomic<watched_folder*> watched = nullptr;

/// Makes a change and records it; a result below zero means that the system refused the change.
template <class Change, class Note>
auto noted(std::string const& path, Change const& change, Note const& note) {
  auto* const journal = watched.load();
  return journal == nullptr ? change() : journal->make_and_note(path, change, note);
}

std::string lines(std::vector<std::string> const& text_lines) {
  std::string out;
  for (auto const& line : text_lines) out += line + "\n";
  return out;
}

std::string name_at(int folder, char const* name) {
  return name[0] == '/' || folder == AT_FDCWD ? std::string(name) : path_of(folder) + "/" + name;
}

}  // namespace save_durability_test

// These replace functions of the C library in this program: they do the same, and record the calls.
extern "C" {
int fsync(int file) {
  using namespace save_durability_test;
  auto const path = watched.load() != nullptr || flushed != nullptr ? path_of(file) : "";
  int const result = noted(
      path, [&] { return static_cast<int>(::syscall(SYS_fsync, file)); },
      [&](watched_folder& watched_root) { watched_root.flush(path); });
  if (result == 0 && flushed != nullptr) flushed->push_back("flushed " + path);
  return result;
}
ssize_t pwrite(int file, void const* bytes, std::size_t count, off_t offset) {
  using namespace save_durability_test;
  auto const path = watched.load() != nullptr ? path_of(file) : "";
  ssize_t result = 0;
  return noted(
      path, [&] { return result = ::syscall(SYS_pwrite64, file, bytes, count, offset); },
      [&](watched_folder& watched_root) {
        watched_root.write(path,
                           {static_cast<char const*>(bytes), static_cast<std::size_t>(result)},
                           static_cast<std::size_t>(offset));
      });
}
int rename(char const* from, char const* to) noexcept {
  using namespace save_durability_test;
  return noted(
      from, [&] { return static_cast<int>(::syscall(SYS_rename, from, to)); },
      [&](watched_folder& watched_root) { watched_root.rename(from, to, false); });
}
int renameat2(int from_folder, char const* from, int to_folder, char const* to,
              unsigned flags) noexcept {
  using namespace save_durability_test;
  return noted(
      from,
      [&] {
        return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
      },
      [&](watched_folder& watched_root) {
        watched_root.rename(from, to, flags == RENAME_EXCHANGE);
      });
}
int mkdir(char const* path, mode_t mode) noexcept {
  using namespace save_durability_test;
  return noted(
      path, [&] { return static_cast<int>(::syscall(SYS_mkdir, path, mode)); },
      [&](watched_folder& watched_root) { watched_root.make(path, {}); });
}
int symlink(char const* target, char const* path) noexcept {
  using namespace save_durability_test;
  return noted(
      path, [&] { return static_cast<int>(::syscall(SYS_symlink, target, path)); },
      [&](watched_folder& watched_root) { watched_root.make(path, target); });
}
int unlink(char const* path) noexcept {
  using namespace save_durability_test;
  return noted(
      path, [&] { return static_cast<int>(::syscall(SYS_unlink, path)); },
      [&](watched_folder& watched_root) { watched_root.remove(path); });
}
int unlinkat(int folder, char const* name, int flags) noexcept {
  using namespace save_durability_test;
  auto const path = watched.load() != nullptr ? name_at(folder, name) : "";
  return noted(
      path, [&] { return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags)); },
      [&](watched_folder& watched_root) { watched_root.remove(path); });
}
}

namespace save_durability_test {

TEST_CASE(
    "save durability: files are flushed after the last write, folders before and after a rename") {
  test::temporary_folder const folder;
  auto const root = fs::canonical(folder.path());
  std::vector<std::string> log;
  flushed = &log;
  test::save_checkpoint(root, 4, 2, [&](std::string_view step) {
    if (step.starts_with("write ") || step.starts_with("rename "))
      if (log.empty() || log.back() != step)
        log.emplace_back(step);  // all slices count as one step
  });
  flushed = nullptr;
  std::string const flush_of_folder = "flushed " + (root / "ep0-ba4.tmp-0000000000000004").native();
  std::string const parent = "flushed " + root.native();
  CHECK(lines(log) ==
        lines({"write slice", "write header", flush_of_folder + "/rank-00000-F32-000.safetensors",
               "write header", flush_of_folder + "/rank-00000-I64-000.safetensors", "write slice",
               "write header", flush_of_folder + "/rank-00001-F32-000.safetensors", "write file",
               flush_of_folder + "/manifest.json", flush_of_folder, "rename folder", parent,
               "rename link", parent}));
}

TEST_CASE(
    "save durability: after any loss of power and of unflushed changes, no wrong data is read") {
  test::temporary_folder const folder, names_now;
  fs::path const run = "run", top = fs::canonical(folder.path()), root = top / run / "saves";
  parallel::index saved = -1;   // the last batch whose save has returned
  parallel::index latest = -1;  // the last batch whose save has begun
  int moments = 0, states = 0;
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same states in every run
  watched_folder* top_folder = nullptr;
  auto const check_state = [&] {
    ++moments;
    auto const all_of = [](bool keeps) { return [keeps] { return keeps; }; };
    auto const any = [&] { return random() % 2 == 0; };
    for (auto const& lost : {loss{all_of(true), true}, loss{all_of(false), false},
                             loss{all_of(true), false}, loss{any, false}, loss{any, true}}) {
      auto const state_folder = names_now / "left";
      fs::create_directory(state_folder);
      top_folder->write_surviving_state(state_folder, lost);
      auto const surviving = state_folder / run / "saves";
      auto const found = parallel::checkpoint::latest(surviving);
      if (!found.folder) {
        CHECK_MESSAGE(saved < 0, "nothing is left of ", saved, ": ", found.note);
      } else {
        auto const id =
            parallel::checkpoint::checkpoint_id::parse(found.folder->filename().native());
        REQUIRE(id.has_value());
        CHECK(id->batch >= saved);
        CHECK(id->batch <= latest);
        CHECK(test::holds_checkpoint(*found.folder, id->batch));
      }
      for (auto const& entry : parallel::checkpoint::list_checkpoints(surviving))
        if (entry.valid()) CHECK(test::holds_checkpoint(entry.folder, entry.id.batch));
      fs::remove_all(state_folder);
      ++states;
    }
  };
  watched_folder of_top(top, check_state);
  top_folder = &of_top;
  watched = &of_top;
  for (parallel::index const number : {1, 2, 2}) {  // the last save replaces an earlier one
    latest = number;
    test::save_checkpoint(root, number, 2);
    saved = number;
    check_state();
    parallel::checkpoint::prune(root, 1);
  }
  watched = nullptr;
  MESSAGE(moments, " moments, ", states, " states of the disk");
  CHECK(moments > 50);
  CHECK(parallel::checkpoint::list_checkpoints(root).size() == 1);
}

TEST_CASE(
    "save durability: no local checkpoint is read wrongly after a loss of power and of a disk") {
  test::local_cluster nodes_run;
  nodes_run.by_rank = {"a", "b", "b", "c"};
  nodes_run.folder = fs::canonical(nodes_run.folder);
  auto const begin = [](auto& one, index batch) {
    one.stepper().initialise(static_cast<std::uint64_t>(batch));
  };
  std::vector<std::map<std::string, std::string>> content{{}};  // by batch
  for (index batch = 1; batch <= 3; ++batch) {
    test::local_cluster other_cluster;
    other_cluster.by_rank = nodes_run.by_rank;
    other_cluster.run(false, [&](auto& one, auto& saver, auto&) {
      begin(one, batch);
      saver.save(test::state_after(batch));
    });
    content.push_back(test::files_of(other_cluster.shared() / parallel::concat("ep0-ba", batch)));
  }
  std::atomic<index> saved = 0;   // the last batch whose save has returned
  std::atomic<index> latest = 0;  // the last batch whose save has begun
  int moments = 0, states = 0;
  std::mt19937 random(8);  // NOLINT(cert-msc51-cpp): the same choices in every run
  watched_folder* journal = nullptr;
  auto const check_state = [&] {
    ++moments;
    if (random() % 8 != 0) return;  // each check takes time, so only some states are checked
    ++states;
    bool const names = random() % 2 == 0, any = random() % 2 == 0;
    test::local_cluster surviving;
    surviving.by_rank = nodes_run.by_rank;
    index const at_least = saved;
    journal->write_surviving_state(
        surviving.folder, {[&] { return any ? random() % 2 == 0 : names; }, random() % 3 == 0});
    fs::remove_all(surviving.local(static_cast<int>(random() % 4)).folder);  // a lost disk
    auto const found = test::promoted(surviving);
    auto const id = parallel::checkpoint::checkpoint_id::parse(found);
    if (!id) {
      CHECK_MESSAGE(at_least == 0, "nothing is left of ", at_least);
      return;
    }
    CHECK(id->batch >= at_least);
    CHECK(id->batch <= latest);
    CHECK(test::files_of(surviving.shared() / found) ==
          content.at(static_cast<std::size_t>(id->batch)));
  };
  watched_folder of_all(nodes_run.folder, check_state);
  journal = &of_all;
  watched = journal;
  nodes_run.run(true, [&](auto& one, auto&, auto& saver) {
    for (index const batch : {1, 2, 3}) {
      begin(one, batch);
      latest = batch;
      CHECK(saver.save(test::state_after(batch)));
      saver.complete();
      one.world().barrier(one.exchanges()).wait();
      saved = batch;
    }
  });
  watched = nullptr;
  MESSAGE(moments, " moments, ", states, " states of the disks");
  CHECK(states > 30);
  CHECK(test::promoted(nodes_run) == "ep0-ba3");
}

}  // namespace save_durability_test
