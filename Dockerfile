# docker build -t tutorials . && docker run --rm -p 127.0.0.1:8888:8888 tutorials
# prints the address, with its token, at which JupyterLab opens.
FROM python:3.11-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home learner \
    && install --directory --owner=learner /environment /tutorials
USER learner
WORKDIR /tutorials
RUN python -m venv /environment
ENV PATH=/environment/bin:$PATH
COPY --chown=learner:learner . .
RUN bash tools/image.sh
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "--no-browser"]
