// neighbour_copies: copies the files that a rank has written to its node's own disk to the disk of
// the neighbour node (node_map), so that they survive the loss of the node.
//
//   neighbour_copies copies(comm, nodes)   once, collective; nothing else uses comm
//   copies.start(folder, files)            collective
//   ... until copies.is_done() on every rank ...
//   copies.finish()
//
// Files are sent in pieces. A rank holds the piece that it sends and a piece from each rank whose
// files it receives. One stream reads and sends, and for each sender another stream receives and
// writes, so the rank computes while it copies. Other exchanges use other communicators meanwhile.
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

#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/core/file.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::checkpoint {

/// The files of a folder: the bytes of each by its name.
using file_sizes = std::map<std::string, std::uint64_t>;

template <class Comm>
class neighbour_copies {
 public:
  /// Nothing else uses `comm`. A file is sent in pieces of at most `piece_bytes`.
  neighbour_copies(Comm comm, node_map const& nodes, std::size_t piece_bytes = std::size_t{1} << 25)
      : comm_(std::move(comm)), piece_bytes_(piece_bytes), out_(nodes.receiver_of(comm_.rank())) {
    require(nodes.nodes() > 1, "neighbour_copies: a single node has no neighbour");
    for (int const sender : nodes.senders_to(comm_.rank())) in_.emplace_back(sender);
  }

  /// Collective: starts to send `files` of `folder`, which are complete and do not change, to the
  /// neighbour, and to write the files that this rank receives into `folder` on its own disk. The
  /// threads that write call `on_action` before they create or flush a file. Blocks only until the
  /// names and sizes of the files have arrived.
  void start(std::filesystem::path const& folder, file_sizes const& files,
             action_hook const& on_action = {}) {
    require(!pending(), "neighbour_copies: finish() must precede the next start()");
    announce(files);
    for (auto& in : in_) {
      auto const announced = receive_announcement(in);
      reserve_piece(in, announced);
      for (auto const& [name, bytes] : announced) receive(in, folder / name, bytes, on_action);
      in.completion = in.stream.record();
    }
    reserve_piece(out_, files);
    for (auto const& [name, bytes] : files) send(folder / name, bytes);
    out_.completion = out_.stream.record();
  }

  /// Whether a start() has had no finish() yet.
  [[nodiscard]] bool pending() const { return out_.completion.has_value(); }

  /// Whether this rank has sent all its files, and all files that it receives are on its disk; does
  /// not block. Throws the error of a failed copy as soon as it is known, because the other ranks
  /// would wait for this one in vain.
  [[nodiscard]] bool is_done() const {
    if (!pending()) return false;
    bool all_ready = true;
    auto const check = [&](host::event const& completion) {
      if (completion.ready())
        completion.wait();  // throws the error of its stream
      else
        all_ready = false;
    };
    // Received files first: a rank that cannot write then reports why, rather than that its
    // exchanges have been given up.
    for (auto const& in : in_) check(*in.completion);
    check(*out_.completion);
    return all_ready;
  }

  /// Waits until is_done() holds. Throws the error of a failed copy.
  void finish() {
    require(pending(), "neighbour_copies: finish() without start()");
    wait();
    requests_.clear();
    out_.completion.reset();
  }

 private:
  using request_type = request_of<host::stream>;

  /// A channel to or from another rank: the memory of a piece, and the stream on which one piece
  /// after another is read and sent, or received and written.
  struct channel {
    explicit channel(int rank) : peer(rank) {}
    int peer;
    std::vector<std::uint8_t> piece;
    std::optional<host::event> completion;  // of all pieces of this copy; none: nothing is copied
    host::stream stream;  // the last member, so that it ends before the memory that it uses
  };

  void wait() const {
    for (auto const& in : in_) in.completion->wait();  // first, as in is_done()
    out_.completion->wait();
  }

  /// Sends the names and sizes of the files: first the bytes of the text, then a text of two lines
  /// for each file.
  void announce(file_sizes const& files) {
    std::string text;
    for (auto const& [name, bytes] : files) text += concat(name, '\n', bytes, '\n');
    announcement_.assign(text.begin(), text.end());
    announcement_bytes_ = announcement_.size();
    requests_.push_back(comm_.send(out_.stream, std::span(&announcement_bytes_, 1), out_.peer));
    if (!announcement_.empty())
      requests_.push_back(comm_.send(out_.stream, std::span(announcement_), out_.peer));
  }

  [[nodiscard]] file_sizes receive_announcement(channel& in) {
    std::uint64_t size = 0;
    comm_.recv(in.stream, std::span(&size, 1), in.peer).wait();
    std::vector<std::uint8_t> bytes(size);
    if (size > 0) comm_.recv(in.stream, std::span(bytes), in.peer).wait();
    std::string const text(bytes.begin(), bytes.end());
    file_sizes out;
    std::string_view rest = text;
    auto const next_line = [&] {
      auto const line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      return line;
    };
    while (!rest.empty()) {
      auto const name = next_line();
      auto const number = next_line();
      require(is_plain_name(name), "rank ", in.peer, " sends a file \"", name,
              "\", which is not a plain file name");
      static_cast<void>(
          std::from_chars(number.data(), number.data() + number.size(), out[std::string(name)]));
    }
    return out;
  }

  /// Allocates the memory of a piece: that of the largest file, at most piece_bytes_.
  void reserve_piece(channel& target, file_sizes const& files) const {
    std::uint64_t max_bytes = 0;
    for (auto const& [name, bytes] : files) max_bytes = std::max(max_bytes, bytes);
    target.piece.resize(std::min<std::uint64_t>(max_bytes, piece_bytes_));
  }

  void send(std::filesystem::path const& path, std::uint64_t bytes) {
    auto const file = std::make_shared<std::optional<input_file>>();
    for (std::uint64_t offset = 0; offset < bytes; offset += out_.piece.size()) {
      auto const piece =
          std::span(out_.piece).first(std::min<std::uint64_t>(bytes - offset, out_.piece.size()));
      out_.stream.enqueue([file, path, offset, piece] {
        if (!*file) file->emplace(path);
        (*file)->read(offset, std::as_writable_bytes(piece), "the piece for the neighbour node");
      });
      requests_.push_back(comm_.send(out_.stream, piece, out_.peer));
    }
  }

  void receive(channel& in, std::filesystem::path const& path, std::uint64_t bytes,
               action_hook const& on_action) {
    auto const file = std::make_shared<std::optional<output_file>>();
    in.stream.enqueue([file, path, on_action] {
      files::announce(on_action, "create copied file");
      file->emplace(path, output_file::existing::refuse);
    });
    for (std::uint64_t offset = 0; offset < bytes; offset += in.piece.size()) {
      auto const piece =
          std::span(in.piece).first(std::min<std::uint64_t>(bytes - offset, in.piece.size()));
      requests_.push_back(comm_.recv(in.stream, piece, in.peer));
      in.stream.enqueue([file, offset, piece] { (*file)->write(offset, std::as_bytes(piece)); });
    }
    in.stream.enqueue([file, on_action] {
      files::announce(on_action, "flush copied file");
      (*file)->sync();
      file->reset();
    });
  }

  Comm comm_;
  std::size_t piece_bytes_;
  std::uint64_t announcement_bytes_ = 0;
  std::vector<std::uint8_t> announcement_;
  channel out_;
  std::deque<channel> in_;
  // The last member, so that it is destroyed first: when an exception leaves, requests give up what
  // is pending and tell the other ranks (request.hpp), before streams wait for it.
  std::vector<request_type> requests_;
};

}  // namespace parallel::checkpoint
