// record_sender: the way of a journal's lines to one kind of tracker.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::trackers {

/// Lines could not be sent.
class send_failure : public parallel::error {
 public:
  enum class remedy {
    wait,     ///< the same lines may be sent later
    restart,  ///< all lines of the journal must be sent again
    give_up   ///< nothing will help while the run lasts
  };

  send_failure(std::string const& text, remedy next) : parallel::error(text), next_(next) {}

  [[nodiscard]] remedy next() const { return next_; }

 private:
  remedy next_;
};

/// One thread calls it.
class record_sender {
 public:
  using cancellation = std::function<bool()>;

  record_sender() = default;
  record_sender(record_sender&&) = delete;
  virtual ~record_sender() = default;

  /// Sends some of the whole lines in `lines`, from the first; returns the bytes of the lines sent,
  /// of which there is at least one. Throws send_failure; gives up soon after `is_cancelled`
  /// returns true.
  [[nodiscard]] virtual std::size_t send(std::string_view lines,
                                         cancellation const& is_cancelled) = 0;

  /// All lines have been sent: waits until the tracker has them for good. Throws send_failure.
  virtual void complete(cancellation const& is_cancelled) = 0;

  /// The journal is sent from kept_position() on, of which `first_line` is the line that begins the
  /// run. Throws send_failure.
  virtual void adopt(std::string_view /*first_line*/) {}

  /// The journal is sent again from its beginning.
  virtual void restart() {}

  /// The longest time that lines wait for more, so that one request holds many.
  [[nodiscard]] virtual std::chrono::milliseconds longest_wait() const = 0;

  /// The offset in the journal of the lines that need not be sent again by another process.
  virtual void keep_position(std::size_t /*sent_bytes*/) {}
  [[nodiscard]] virtual std::size_t kept_position() const { return 0; }

  /// Messages for the user since the last call.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 protected:
  void note(std::string text) { notes_.push_back(std::move(text)); }

 private:
  std::vector<std::string> notes_;
};

}  // namespace mpt::trackers
