# The image of a release: the binary on a small Debian, as a user without privileges.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p provost-cli --features otel,wasm

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --uid 10001 provost
COPY --from=build /src/target/release/provost /usr/local/bin/provost
USER provost
VOLUME /home/provost/.local/share/provost
ENTRYPOINT ["provost"]
CMD ["--help"]
