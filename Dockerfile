# docker build -t wiredecode .
# docker run --rm -v "$PWD:/captures:ro" wiredecode pcap /captures/a.pcap --summary
# Live: docker run --rm --network host --cap-drop ALL --cap-add NET_RAW --user 0 wiredecode sniff -i any --summary
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY docs/wiredecode.1 docs/wiredecode.1
COPY wiredecode wiredecode
RUN pip wheel --no-cache-dir --no-deps -w /wheels .

FROM python:3.11-slim
COPY --from=build /wheels /wheels
# The wheel by its name: an extra cannot be told of a pattern.
RUN wheel=$(ls /wheels/wiredecode-*.whl) \
    && pip install --no-cache-dir "${wheel}[zstd,lz4,snappy,tls,sql,report]" \
    && rm -r /wheels \
    && useradd --create-home --uid 10001 wiredecode
# No rights are needed to read captures; the root of the file system may be read-only (--read-only --tmpfs /tmp).
USER 10001
WORKDIR /captures
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["wiredecode"]
CMD ["--help"]
