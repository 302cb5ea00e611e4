# allyouneed serve with the included models, on a CPU:
#   docker build -t allyouneed . && docker run --rm -p 5000:5000 allyouneed
FROM python:3.12-slim

ENV PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# The native engine is compiled at its first use, for the processor that it then runs on.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# Torch first and for CPUs: the plain build brings CUDA along, several gigabytes of it.
COPY constraints.txt /build/
RUN pip install --constraint /build/constraints.txt \
    --index-url https://download.pytorch.org/whl/cpu torch

COPY pyproject.toml README.md LICENSE /build/
COPY allyouneed /build/allyouneed
RUN pip install --constraint /build/constraints.txt '/build[serve]'

RUN useradd --create-home --uid 1000 allyouneed
USER allyouneed
WORKDIR /home/allyouneed

EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/ready')"]

ENTRYPOINT ["allyouneed", "serve", "--host", "0.0.0.0"]
