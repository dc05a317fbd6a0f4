// A board on which processes that are ranks of the fake NCCL exchange texts. Each post is a file in
// a folder that all processes can read; it becomes visible when it is complete.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace fake_nccl {

class board {
 public:
  explicit board(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void post(std::string const& name, std::string const& text) const {
    auto const partial_file = folder_ / (name + ".part" + std::to_string(::getpid()));
    if (std::ofstream out(partial_file, std::ios::binary); !(out << text) || !out.flush())
      throw std::runtime_error("fake NCCL: cannot write " + partial_file.string());
    std::filesystem::rename(partial_file, folder_ / name);
  }
  [[nodiscard]] bool contains(std::string const& name) const {
    return ::access((folder_ / name).c_str(), F_OK) == 0;
  }
  /// The text of an existing post.
  [[nodiscard]] std::string read(std::string const& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    std::string text(std::filesystem::file_size(folder_ / name), '\0');
    if (!in.read(text.data(), static_cast<std::streamsize>(text.size())))
      throw std::runtime_error("fake NCCL: cannot read " + (folder_ / name).string());
    return text;
  }
  void remove(std::string const& name) const { std::filesystem::remove(folder_ / name); }

 private:
  std::filesystem::path folder_;
};

}  // namespace fake_nccl
