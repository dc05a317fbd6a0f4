// gloo::detail::connecting: connects a rank to all others, within one deadline.
//
// gloo connects to one rank after another, and waits for each five times as long as it is told. A
// rank that stands before one it cannot reach would then look, to all behind that, as if it could
// not be reached itself. So all are connected to at once, and whoever fails names the right one.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo::detail {

/// The ranks that `context` has pairs with, by the addresses that they have left. Its pairs wait
/// without a limit of their own.
class connecting {
 public:
  connecting(::gloo::transport::Context& context, std::vector<std::string> const& addresses,
             std::string_view interface)
      : context_(context), addresses_(addresses), interface_(interface), there_(addresses.size()) {
    there_[static_cast<std::size_t>(context_.rank)] = true;
  }

  /// Blocks until all are connected. Throws `timed_out` for a connection that fails or does not
  /// come before the deadline: a network that is away may come back. A plain `error` says what
  /// another try would not change.
  void wait(std::chrono::milliseconds deadline) {
    require_one_family();
    std::vector<std::thread> workers;
    patience limit(deadline);
    std::unique_lock lock(mutex_);
    try {
      while (workers.size() < std::min(there_.size() - 1, most_at_once))
        workers.emplace_back([this] { work(); });
    } catch (std::system_error const&) {  // fewer threads do it too, one after another
      if (workers.empty()) throw;
    }
    while (!all_there() && !problem_ && !limit.over()) changed_.wait_until(lock, limit.next());
    bool const done = all_there();
    over_ = true;
    auto const late = missing();
    lock.unlock();
    if (!done)  // wakes who waits in gloo
      for (int peer = 0; peer < context_.size; ++peer)
        if (peer != context_.rank) context_.getPair(peer)->close();
    for (auto& one : workers) one.join();
    if (done) return;
    if (problem_) throw timed_out(failed());
    throw timed_out(concat(
        "rank ", context_.rank, " waited ", static_cast<double>(deadline.count()) / 1000.0,
        " s to connect to ", name_ranks(late), late.size() == 1 ? ", at " + at(late[0]) : "",
        "; see whether that machine and rank still run, whether machines reach each other by the "
        "interface ",
        interface_, ", and whether a firewall lets connections of ranks in (docs/launch.md)"));
  }

 private:
  // Each waits for one rank, in gloo.
  static constexpr std::size_t most_at_once = 64;

  [[nodiscard]] ::gloo::transport::tcp::Address address(int peer) const {
    auto const& text = addresses_[static_cast<std::size_t>(peer)];
    return ::gloo::transport::tcp::Address(std::vector<char>(text.begin(), text.end()));
  }
  [[nodiscard]] std::string at(int peer) const { return text_of(address(peer)); }

  // gloo's own text has the bytes of the port in the other order.
  [[nodiscard]] static std::string text_of(::gloo::transport::tcp::Address const& where) {
    auto const& socket = where.getSockaddr();
    std::array<char, INET6_ADDRSTRLEN> host = {};
    bool const six = socket.ss_family == AF_INET6;
    auto const* const as_six = reinterpret_cast<sockaddr_in6 const*>(&socket);
    auto const* const as_four = reinterpret_cast<sockaddr_in const*>(&socket);
    void const* const bytes = six ? static_cast<void const*>(&as_six->sin6_addr)
                                  : static_cast<void const*>(&as_four->sin_addr);
    static_cast<void>(::inet_ntop(socket.ss_family, bytes, host.data(), host.size()));
    return concat('[', host.data(), "]:", ntohs(six ? as_six->sin6_port : as_four->sin_port));
  }

  // gloo has the system's reason in words only.
  [[nodiscard]] static bool says(std::string const& problem, int code) {
    return problem.find(std::strerror(code)) != std::string::npos;
  }

  void require_one_family() const {
    for (int peer = 0; peer < context_.size; ++peer) {
      if (peer == context_.rank) continue;
      ::gloo::transport::tcp::Address const own(context_.getPair(peer)->address().bytes());
      require(own.getSockaddr().ss_family == address(peer).getSockaddr().ss_family, "rank ",
              context_.rank, " listens at ", text_of(own), " and rank ", peer, " at ", at(peer),
              ": one by IPv4 and the other by IPv6; give the interfaces of all machines addresses "
              "of one kind, or choose others");
    }
  }

  void work() {
    for (;;) {
      int peer = 0;
      {
        std::scoped_lock const lock(mutex_);
        if (next_ == context_.rank) ++next_;
        if (over_ || problem_ || next_ >= context_.size) return;
        peer = next_++;
      }
      std::optional<std::string> problem;
      try {
        auto const bytes = address(peer).bytes();
        context_.getPair(peer)->connect(bytes);
      } catch (std::exception const& what) {
        problem = what.what();
      }
      std::scoped_lock const lock(mutex_);
      if (over_) return;
      // who was there and has left again: the greeting says so
      if (!problem || problem->find("closed by peer") != std::string::npos ||
          says(*problem, ECONNRESET))
        there_[static_cast<std::size_t>(peer)] = true;
      else if (!problem_)
        problem_ = {peer, *problem};
      changed_.notify_one();
    }
  }

  [[nodiscard]] bool all_there() const {
    return std::find(there_.begin(), there_.end(), false) == there_.end();
  }
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> out;
    for (std::size_t i = 0; i < there_.size(); ++i)
      if (!there_[i]) out.push_back(static_cast<int>(i));
    return out;
  }

  [[nodiscard]] std::string failed() const {
    auto const is = [&](int code) { return says(problem_->second, code); };
    return concat(
        "rank ", context_.rank, " cannot connect to rank ", problem_->first, " at ",
        at(problem_->first), ": ", problem_->second,
        is(ECONNREFUSED) ? "; it listened there before: it has ended, and says why in its own log, "
                           "or a firewall refuses (docs/launch.md)"
        : is(EHOSTUNREACH) || is(ENETUNREACH) || is(ETIMEDOUT)
            ? concat("; see whether that machine is up and the network between, and whether the "
                     "interface ",
                     interface_, " is one by which all machines reach each other")
            : std::string());
  }

  ::gloo::transport::Context& context_;
  std::vector<std::string> const& addresses_;
  std::string interface_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<bool> there_;
  std::optional<std::pair<int, std::string>> problem_;  // the first: with whom, and what
  int next_ = 0;
  bool over_ = false;
};

}  // namespace parallel::gloo::detail
