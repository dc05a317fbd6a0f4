// neighbour_copies: the files that a rank has written to its node's own disk, copied to the disk of
// the neighbour, which outlives the node.
//
//   neighbour_copies copies(comm, nodes)   once, collective; comm is for nothing else
//   copies.start(folder, files)            collective
//   ... until copies.done() on every rank ...
//   copies.finish()
//
// Files travel in pieces, of which a rank holds one that it sends and one that it receives of each
// sender: a stream of its own reads and sends, another receives and writes. So whoever copies goes
// on computing, and what ranks say to each other meanwhile goes by other communicators.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/checkpoint/node_map.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/core/file.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::checkpoint {

/// Files of one folder and their bytes, by name.
using file_sizes = std::map<std::string, std::uint64_t>;

template <class Comm>
class neighbour_copies {
 public:
  /// `ranks` is used by nobody else; at most `piece_bytes` travel at once.
  neighbour_copies(Comm ranks, node_map const& nodes,
                   std::size_t piece_bytes = std::size_t{1} << 25)
      : comm_(std::move(ranks)), piece_bytes_(piece_bytes), out_(nodes.receiver_of(comm_.rank())) {
    require(nodes.nodes() > 1, "neighbour_copies: a single node has no neighbour");
    for (int const sender : nodes.senders_to(comm_.rank())) in_.emplace_back(sender);
  }

  /// Collective: begins to give the neighbour `files` of `folder`, which are complete and stay as
  /// they are, and to write those that this rank is given into the same folder; `on_step` is called
  /// by the threads that write them. Blocks only for their names.
  void start(std::filesystem::path const& folder, file_sizes const& files,
             step_hook const& on_step = {}) {
    require(!pending(), "a rank copies the files of one checkpoint at a time");
    say_what_comes(files);
    for (auto& in : in_) {
      auto const given = hear_what_comes(in);
      make_room(in, given);
      for (auto const& [name, bytes] : given) receive(in, folder / name, bytes, on_step);
      in.done = in.stream.record();
    }
    make_room(out_, files);
    for (auto const& [name, bytes] : files) send(folder / name, bytes);
    out_.done = out_.stream.record();
  }

  /// Whether there was a `start` without a `finish`.
  [[nodiscard]] bool pending() const { return out_.done.has_value(); }

  /// Whether the neighbour has what it was given, and what this rank was given is on disk; does not
  /// block. Throws what copying failed with, at once: whoever waits for this rank waits in vain.
  [[nodiscard]] bool done() const {
    if (!pending()) return false;
    bool all = true;
    auto const look = [&](host::event const& over) {
      if (over.ready())
        over.wait();
      else
        all = false;
    };
    for (auto const& in : in_) look(*in.done);  // whoever cannot write says why
    look(*out_.done);
    return all;
  }

  /// Waits until it is so. Throws what copying failed with.
  void finish() {
    require(pending(), "no copying was started");
    wait();
    requests_.clear();
    out_.done.reset();
  }

 private:
  using request_type = request_of<host::stream>;

  /// To or from another rank: a piece of a file, and the stream that moves one after the other.
  struct channel {
    explicit channel(int rank) : peer(rank) {}
    int peer;
    std::vector<std::uint8_t> piece;
    std::optional<host::event> done;
    host::stream stream;  // last: it ends before what it uses goes
  };

  void wait() const {
    for (auto const& in : in_) in.done->wait();  // whoever cannot write says why
    out_.done->wait();
  }

  void say_what_comes(file_sizes const& files) {
    std::string text;
    for (auto const& [name, bytes] : files) text += concat(name, '\n', bytes, '\n');
    said_.assign(text.begin(), text.end());
    said_bytes_ = said_.size();
    requests_.push_back(comm_.send(out_.stream, std::span(&said_bytes_, 1), out_.peer));
    if (!said_.empty()) requests_.push_back(comm_.send(out_.stream, std::span(said_), out_.peer));
  }

  [[nodiscard]] file_sizes hear_what_comes(channel& in) {
    std::uint64_t size = 0;
    comm_.recv(in.stream, std::span(&size, 1), in.peer).wait();
    std::vector<std::uint8_t> bytes(size);
    if (size > 0) comm_.recv(in.stream, std::span(bytes), in.peer).wait();
    std::string const text(bytes.begin(), bytes.end());
    file_sizes out;
    std::string_view left = text;
    auto const line = [&] {
      auto const found = left.substr(0, left.find('\n'));
      left.remove_prefix(found.size() + 1);
      return found;
    };
    while (!left.empty()) {
      auto const name = line();
      auto const number = line();
      require(is_plain_name(name), "rank ", in.peer, " gives a file \"", name,
              "\", which is not a plain file name");
      static_cast<void>(
          std::from_chars(number.data(), number.data() + number.size(), out[std::string(name)]));
    }
    return out;
  }

  void make_room(channel& one, file_sizes const& files) const {
    std::uint64_t most = 0;
    for (auto const& [name, bytes] : files) most = std::max(most, bytes);
    one.piece.resize(std::min<std::uint64_t>(most, piece_bytes_));
  }

  void send(std::filesystem::path const& path, std::uint64_t bytes) {
    auto const file = std::make_shared<std::optional<input_file>>();
    for (std::uint64_t at = 0; at < bytes; at += out_.piece.size()) {
      auto const piece =
          std::span(out_.piece).first(std::min<std::uint64_t>(bytes - at, out_.piece.size()));
      out_.stream.enqueue([file, path, at, piece] {
        if (!*file) file->emplace(path);
        (*file)->read(at, std::as_writable_bytes(piece), "what the neighbour is given");
      });
      requests_.push_back(comm_.send(out_.stream, piece, out_.peer));
    }
  }

  void receive(channel& in, std::filesystem::path const& path, std::uint64_t bytes,
               step_hook const& on_step) {
    auto const file = std::make_shared<std::optional<output_file>>();
    in.stream.enqueue([file, path, on_step] {
      files::step(on_step, "create copied file");
      file->emplace(path, output_file::existing::refuse);
    });
    for (std::uint64_t at = 0; at < bytes; at += in.piece.size()) {
      auto const piece =
          std::span(in.piece).first(std::min<std::uint64_t>(bytes - at, in.piece.size()));
      requests_.push_back(comm_.recv(in.stream, piece, in.peer));
      in.stream.enqueue([file, at, piece] { (*file)->write(at, std::as_bytes(piece)); });
    }
    in.stream.enqueue([file, on_step] {
      files::step(on_step, "flush copied file");
      (*file)->sync();
      file->reset();
    });
  }

  Comm comm_;
  std::size_t piece_bytes_;
  std::uint64_t said_bytes_ = 0;
  std::vector<std::uint8_t> said_;
  channel out_;
  std::deque<channel> in_;
  std::vector<request_type> requests_;  // last: an exception that leaves is told to the others
};

}  // namespace parallel::checkpoint
