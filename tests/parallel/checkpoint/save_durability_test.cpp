// What a loss of power finds: every byte of a checkpoint is on disk before it gets its name, and
// the name before anything relies on it. The system's own calls are watched, and what a disk may
// hold after each of them is loaded.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
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

namespace save_durability_test {
namespace fs = std::filesystem;

/// The file or folder behind a descriptor.
std::string path_of(int file) { return fs::read_symlink(parallel::concat("/proc/self/fd/", file)); }

/// A file, link or folder as programs see it, and as the disk is known to hold it.
struct node {
  using entries = std::map<std::string, std::shared_ptr<node>>;
  bool is_folder = false;
  std::string link;
  std::string data, data_on_disk;
  entries names, names_on_disk;
};

/// What may be missing of what was not flushed.
struct loss {
  std::function<bool()> keeps_name;  // a change of a folder
  bool keeps_data = false;
};

/// A folder of which all changes are known.
class watched_folder {
 public:
  explicit watched_folder(fs::path root, std::function<void()> after_each)
      : root_(std::move(root)), after_each_(std::move(after_each)) {
    top_.is_folder = true;
  }

  void write(std::string const& path, std::string_view bytes, std::size_t offset) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    auto& file = parent->names[name_of(path)];
    if (!file) file = std::make_shared<node>();
    if (file->data.size() < offset + bytes.size()) file->data.resize(offset + bytes.size());
    file->data.replace(offset, bytes.size(), bytes);
    after_each_();
  }
  void flush(std::string const& path) {
    auto* const found = at(path);
    if (found == nullptr) return;
    found->data_on_disk = found->data;
    found->names_on_disk = found->names;
    after_each_();
  }
  void make(std::string const& path, std::string link) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    auto made = std::make_shared<node>();
    made->is_folder = link.empty();
    made->link = std::move(link);
    parent->names[name_of(path)] = made;
    after_each_();
  }
  void rename(std::string const& from, std::string const& to, bool exchange) {
    auto* const a = folder_of(from);
    auto* const b = folder_of(to);
    if (a == nullptr || b == nullptr) return;
    std::swap(a->names[name_of(from)], b->names[name_of(to)]);
    if (!exchange) a->names.erase(name_of(from));
    after_each_();
  }
  void remove(std::string const& path) {
    auto* const parent = folder_of(path);
    if (parent == nullptr) return;
    parent->names.erase(name_of(path));
    after_each_();
  }

  /// Makes in `place` what the disk may hold when the power is lost now.
  void write_what_is_left(fs::path const& place, loss const& lost) const {
    write_folder(top_, place, lost);
  }

 private:
  [[nodiscard]] static std::string name_of(fs::path const& path) { return path.filename(); }
  [[nodiscard]] node* at(fs::path const& path) {
    if (path == root_) return &top_;
    auto* const parent = folder_of(path);
    if (parent == nullptr) return nullptr;
    auto const found = parent->names.find(path.filename());
    return found == parent->names.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] node* folder_of(fs::path const& path) {
    if (!path.native().starts_with(root_.native() + "/")) return nullptr;
    return at(path.parent_path());
  }
  static void write_folder(node const& folder, fs::path const& place, loss const& lost) {
    std::set<std::string> all;
    for (auto const& [name, child] : folder.names) all.insert(name);
    for (auto const& [name, child] : folder.names_on_disk) all.insert(name);
    for (auto const& name : all) {
      auto const& before = folder.names_on_disk;
      auto const& after = folder.names;
      auto const find = [&](node::entries const& some) {
        auto const found = some.find(name);
        return found == some.end() ? nullptr : found->second.get();
      };
      auto const* const child =
          find(before) == find(after) || lost.keeps_name() ? find(after) : find(before);
      if (child == nullptr) continue;
      if (!child->link.empty()) {
        fs::create_symlink(child->link, place / name);
      } else if (child->is_folder) {
        fs::create_directory(place / name);
        write_folder(*child, place / name, lost);
      } else {
        std::ofstream(place / name, std::ios::binary)
            << (lost.keeps_data ? child->data : child->data_on_disk);
      }
    }
  }

  fs::path root_;
  std::function<void()> after_each_;
  node top_;
};

/// Where this thread's calls are written down; null: nowhere.
thread_local std::vector<std::string>* flushed = nullptr;
thread_local watched_folder* watched = nullptr;

std::string lines(std::vector<std::string> const& all) {
  std::string out;
  for (auto const& line : all) out += line + "\n";
  return out;
}

std::string name_at(int folder, char const* name) {
  return name[0] == '/' || folder == AT_FDCWD ? std::string(name) : path_of(folder) + "/" + name;
}

}  // namespace save_durability_test

// In the C library's place in this program: they do what it does, and tell.
extern "C" {
int fsync(int file) {
  using namespace save_durability_test;
  int const result = static_cast<int>(::syscall(SYS_fsync, file));
  if (result == 0 && flushed != nullptr) flushed->push_back("flushed " + path_of(file));
  if (result == 0 && watched != nullptr) watched->flush(path_of(file));
  return result;
}
ssize_t pwrite(int file, void const* bytes, std::size_t count, off_t offset) {
  using namespace save_durability_test;
  auto const result = ::syscall(SYS_pwrite64, file, bytes, count, offset);
  if (result > 0 && watched != nullptr)
    watched->write(path_of(file),
                   {static_cast<char const*>(bytes), static_cast<std::size_t>(result)},
                   static_cast<std::size_t>(offset));
  return result;
}
int rename(char const* from, char const* to) noexcept {
  int const result = static_cast<int>(::syscall(SYS_rename, from, to));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->rename(from, to, false);
  return result;
}
int renameat2(int from_folder, char const* from, int to_folder, char const* to,
              unsigned flags) noexcept {
  int const result =
      static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->rename(from, to, flags == RENAME_EXCHANGE);
  return result;
}
int mkdir(char const* path, mode_t mode) noexcept {
  int const result = static_cast<int>(::syscall(SYS_mkdir, path, mode));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->make(path, {});
  return result;
}
int symlink(char const* target, char const* path) noexcept {
  int const result = static_cast<int>(::syscall(SYS_symlink, target, path));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->make(path, target);
  return result;
}
int unlink(char const* path) noexcept {
  int const result = static_cast<int>(::syscall(SYS_unlink, path));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->remove(path);
  return result;
}
int unlinkat(int folder, char const* name, int flags) noexcept {
  auto const path = save_durability_test::watched == nullptr
                        ? std::string()
                        : save_durability_test::name_at(folder, name);
  int const result = static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
  if (result == 0 && save_durability_test::watched != nullptr)
    save_durability_test::watched->remove(path);
  return result;
}
}

namespace save_durability_test {

TEST_CASE("files are flushed after their last write, folders before and after they are renamed") {
  test::temporary_folder const folder;
  auto const root = fs::canonical(folder.path());
  std::vector<std::string> log;
  flushed = &log;
  test::save_checkpoint(root, 4, 2, [&](std::string_view step) {
    if (step.starts_with("write ") || step.starts_with("rename "))
      if (log.empty() || log.back() != step) log.emplace_back(step);  // slices as one
  });
  flushed = nullptr;
  std::string const place = "flushed " + (root / "ep0-ba4.tmp-0000000000000004").native();
  std::string const parent = "flushed " + root.native();
  CHECK(lines(log) ==
        lines({"write slice", "write header", place + "/rank-00000-F32-000.safetensors",
               "write header", place + "/rank-00000-I64-000.safetensors", "write slice",
               "write header", place + "/rank-00001-F32-000.safetensors", "write file",
               place + "/manifest.json", place, "rename folder", parent, "rename link", parent}));
}

TEST_CASE("whenever power is lost, and whatever was not flushed, no checkpoint is read wrongly") {
  test::temporary_folder const folder, after;
  auto const root = fs::canonical(folder.path());
  parallel::index saved = -1;   // the last one whose save has returned
  parallel::index latest = -1;  // the last one begun
  int moments = 0, states = 0;
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same states in every run
  watched_folder* all = nullptr;
  auto const look = [&] {
    auto* const during = std::exchange(watched, nullptr);
    ++moments;
    auto const all_of = [](bool kept) { return [kept] { return kept; }; };
    auto const any = [&] { return random() % 2 == 0; };
    for (auto const& lost : {loss{all_of(true), true}, loss{all_of(false), false},
                             loss{all_of(true), false}, loss{any, false}, loss{any, true}}) {
      auto const place = after / "left";
      fs::create_directory(place);
      all->write_what_is_left(place, lost);
      auto const found = parallel::checkpoint::latest(place);
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
      for (auto const& entry : parallel::checkpoint::list_checkpoints(place))
        if (entry.valid()) CHECK(test::holds_checkpoint(entry.folder, entry.id.batch));
      fs::remove_all(place);
      ++states;
    }
    watched = during;
  };
  watched_folder of_root(root, look);
  all = &of_root;
  watched = &of_root;
  for (parallel::index const number : {1, 2, 2}) {  // the last one takes the place of another
    latest = number;
    test::save_checkpoint(root, number, 2);
    saved = number;
    look();
    parallel::checkpoint::prune(root, 1);
  }
  watched = nullptr;
  MESSAGE(moments, " moments, ", states, " states of the disk");
  CHECK(moments > 50);
  CHECK(parallel::checkpoint::list_checkpoints(root).size() == 1);
}

}  // namespace save_durability_test
